//! Two processes with one instance: the later one goes on, the other says why it can't.

use crate::deployment;
use crate::topics::{event, send_all};
use crate::wait::until_true;

#[test]
fn of_two_processes_with_one_instance_the_earlier_ends_and_names_it_with_the_remedy() {
    let deployment = deployment("instances");
    let earlier = deployment.start_ready("eu-0", &[]);
    let later = deployment.start_ready("eu-0", &[]);
    until_true("the later one has all partitions", || {
        later.get("/readyz").is_some_and(|(_, body)| body.contains("running 4 partitions"))
    });
    let events: Vec<_> = (0..40).map(|n| event(&format!("s{n}"), r#"{"type":"session.created"}"#)).collect();
    send_all(&deployment, &events);
    let (status, log) = earlier.wait_until_ended();
    assert_eq!(status.code(), Some(1), "{log}");
    let group = &deployment.name;
    let same = format!(r#"a process that was started later has the same kafka.instance, "eu-0", in group "{group}""#);
    assert!(log.replace('\\', "").contains(&same), "{log}");
    assert!(log.contains("give each process an instance of its own"), "{log}");
    until_true("the later one reads everything", || later.metric("duplex_sessions_open") == Some(events.len() as f64));
    later.terminate_well();
}
