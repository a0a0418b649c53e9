//! An events topic that is deleted and made anew: the service stops and says so, and what it says loses nothing of the new
//! topic.

use std::collections::BTreeSet;
use std::thread;

use crate::cluster;
use crate::operator::Operator;
use crate::service::{Deployment, Shape};
use crate::state::assert_ended;
use crate::topics::{Judge, create_topic, create_topics, event, send_all};
use crate::wait::until_true;

/// Where the service is while the topic is replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Service {
    Ended,
    Running,
    /// It sees nothing in between: the next that it asks for is of the new topic.
    StandingStill,
}

/// Sessions of so many events each, which are all that the topic has.
fn send_sessions(deployment: &Deployment, name: &str, sessions: usize) -> BTreeSet<String> {
    let ids: BTreeSet<String> = (0..sessions).map(|n| format!("{name}-{n:02}")).collect();
    let kinds = ["session.created", "session.closed"];
    let events = kinds.map(|kind| ids.iter().map(move |id| event(id, format!(r#"{{"type":"{kind}"}}"#))));
    send_all(deployment, &events.into_iter().flatten().collect::<Vec<_>>());
    ids
}

fn replace_the_events_topic(name: &str, service: Service, sessions_after: usize) {
    const SESSIONS_BEFORE: usize = 10;
    let shape = Shape { partitions: 1, ..Shape::default() };
    let deployment = Deployment::shaped(cluster::shared(), &format!("replaced-{name}"), shape);
    create_topics(&deployment);
    let operator = Operator::of(&deployment);
    let before = send_sessions(&deployment, "before", SESSIONS_BEFORE);
    let mut running = Some(deployment.start_ready("a", &[]));
    Judge::of(&deployment, "bundles").read_until(SESSIONS_BEFORE);
    until_true("all is committed", || operator.lag() == Some(0));
    match service {
        Service::Ended => running.take().expect("it runs").terminate_well(),
        Service::StandingStill => {
            let running = running.as_ref().expect("it runs");
            running.signal("STOP");
            until_true("it stands still", || running.is_stopped());
        }
        Service::Running => {}
    }
    operator.delete_topic("events");
    create_topic(&deployment, "events");
    let after = send_sessions(&deployment, "after", sessions_after);
    if service == Service::StandingStill {
        running.as_ref().expect("it runs").signal("CONT");
    }
    let ended = running.unwrap_or_else(|| deployment.start("a", &[]));
    assert_ended(ended, "the events topic was deleted and made anew");

    operator.delete_topic("changelog");
    let (topic, group) = (deployment.topic("events"), deployment.name.as_str());
    let what = ["--group", group, "--topic", &topic, "--reset-offsets", "--to-earliest", "--execute"];
    let arguments = [&["--bootstrap-server", deployment.bootstrap.as_str()][..], &what].concat();
    cluster::tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", &arguments);
    let service = deployment.start_ready("a", &[]);
    Judge::of(&deployment, "bundles").read_until(before.len() + after.len());
    service.terminate_well();
    let bundles = Judge::all_of(&deployment, "bundles").into_iter().filter_map(|bundle| bundle.key);
    assert_eq!(bundles.collect::<BTreeSet<_>>(), before.into_iter().chain(after).collect());
}

#[test]
fn an_events_topic_made_anew_stops_the_service_wherever_it_is_and_the_remedy_loses_nothing_of_it() {
    thread::scope(|scope| {
        for (service, name) in
            [(Service::Ended, "ended"), (Service::Running, "running"), (Service::StandingStill, "still")]
        {
            for (sessions, than_before) in [(3, "fewer"), (30, "more")] {
                let name = format!("{name}-{than_before}");
                scope.spawn(move || replace_the_events_topic(&name, service, sessions));
            }
        }
    });
}
