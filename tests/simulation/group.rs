//! The group coordinator: members, generations, who gets which partition, and committed offsets.
//!
//! ```text
//!            a member joins, leaves or expires               every member has joined again, or is thrown out
//!   Stable ------------------------------------> Preparing -------------------------------------------------> Stable
//!                                                                                       (the next generation)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::log::TransactionId;
use crate::random::Random;

/// A member that was not heard of for this long is thrown out, in virtual milliseconds.
pub const SESSION_TIMEOUT: u64 = 15_000;
/// How long a rebalance waits for members to join again.
const REBALANCE_TIMEOUT: u64 = 20_000;

pub type MemberId = u64;

/// What a member commits by. A blank one has generation -1, and a broker accepts it from anybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metadata {
    pub member: MemberId,
    pub generation: i32,
}

impl Metadata {
    pub const BLANK: Self = Self { member: 0, generation: -1 };
}

#[derive(Debug)]
struct Member {
    seen_at: u64,
    /// It has joined the generation that is being prepared.
    joined: bool,
    /// What it says it owns.
    claims: BTreeSet<i32>,
    target: BTreeSet<i32>,
}

#[derive(Debug)]
pub struct Group {
    pub cooperative: bool,
    partitions: i32,
    generation: i32,
    preparing_since: Option<u64>,
    members: BTreeMap<MemberId, Member>,
    next_member: MemberId,
    /// The next generation gives the partitions out anew, whoever had them.
    pub shuffle: bool,
    committed: BTreeMap<i32, i64>,
    /// What was committed when the replicas fell behind, and until when they do: that is what is told.
    replicated: Option<(BTreeMap<i32, i64>, u64)>,
    /// Offsets of transactions that have no marker here.
    pending: BTreeMap<TransactionId, Vec<(i32, i64)>>,
}

impl Group {
    pub fn new(partitions: i32, cooperative: bool) -> Self {
        Self {
            cooperative,
            partitions,
            generation: 0,
            preparing_since: None,
            members: BTreeMap::new(),
            next_member: 1,
            shuffle: false,
            committed: BTreeMap::new(),
            replicated: None,
            pending: BTreeMap::new(),
        }
    }

    /// The generation that is settled; `None` while one is being prepared.
    pub fn stable_generation(&self) -> Option<i32> {
        self.preparing_since.is_none().then_some(self.generation)
    }

    pub fn knows(&self, member: MemberId) -> bool {
        self.members.contains_key(&member)
    }

    pub fn has_joined(&self, member: MemberId) -> bool {
        self.members.get(&member).is_some_and(|member| member.joined)
    }

    pub fn target(&self, member: MemberId) -> BTreeSet<i32> {
        self.members.get(&member).map(|member| member.target.clone()).unwrap_or_default()
    }

    /// A new member joins.
    pub fn enter(&mut self, now: u64) -> MemberId {
        let id = self.next_member;
        self.next_member += 1;
        self.prepare(now);
        let member = Member { seen_at: now, joined: true, claims: BTreeSet::new(), target: BTreeSet::new() };
        self.members.insert(id, member);
        id
    }

    /// A member joins the generation that is being prepared, or asks for one.
    pub fn rejoin(&mut self, member: MemberId, claims: BTreeSet<i32>, now: u64) {
        self.prepare(now);
        if let Some(member) = self.members.get_mut(&member) {
            (member.joined, member.claims, member.seen_at) = (true, claims, now);
        }
    }

    pub fn leave(&mut self, member: MemberId, now: u64) {
        if self.members.remove(&member).is_some() {
            self.prepare(now);
        }
    }

    pub fn heartbeat(&mut self, member: MemberId, now: u64) {
        if let Some(member) = self.members.get_mut(&member) {
            member.seen_at = now;
        }
    }

    fn prepare(&mut self, now: u64) {
        if self.preparing_since.is_none() {
            self.preparing_since = Some(now);
            self.members.values_mut().for_each(|member| member.joined = false);
        }
    }

    /// Asks every member to join again.
    pub fn rebalance(&mut self, now: u64) {
        self.shuffle = true;
        self.prepare(now);
    }

    /// Throws out who was not heard of, and settles a generation that all have joined.
    pub fn tick(&mut self, now: u64, random: &mut Random) {
        let before = self.members.len();
        self.members.retain(|_, member| now - member.seen_at < SESSION_TIMEOUT);
        if self.members.len() < before {
            self.prepare(now);
        }
        let Some(since) = self.preparing_since else { return };
        if now - since >= REBALANCE_TIMEOUT {
            self.members.retain(|_, member| member.joined);
        }
        if !self.members.is_empty() && self.members.values().all(|member| member.joined) {
            self.preparing_since = None;
            self.generation += 1;
            self.assign(random);
        }
    }

    /// Balanced, and sticky unless shuffled. A cooperative member is given nothing that another still claims.
    fn assign(&mut self, random: &mut Random) {
        let ids: Vec<MemberId> = self.members.keys().copied().collect();
        let mut wanted: BTreeMap<i32, MemberId> = BTreeMap::new();
        let most = (self.partitions as usize).div_ceil(ids.len());
        let mut load: BTreeMap<MemberId, usize> = ids.iter().map(|id| (*id, 0)).collect();
        if !std::mem::take(&mut self.shuffle) {
            for (id, member) in &self.members {
                for partition in member.claims.iter().take(most) {
                    if wanted.insert(*partition, *id).is_none() {
                        *load.get_mut(id).expect("a member") += 1;
                    }
                }
            }
        }
        for partition in 0..self.partitions {
            if wanted.contains_key(&partition) {
                continue;
            }
            let least = *load.values().min().expect("a group has members");
            let free: Vec<MemberId> = load.iter().filter(|(_, n)| **n == least).map(|(id, _)| *id).collect();
            let id = *random.pick(&free);
            *load.get_mut(&id).expect("a member") += 1;
            wanted.insert(partition, id);
        }
        let claimed: BTreeMap<i32, MemberId> =
            self.members.iter().flat_map(|(id, member)| member.claims.iter().map(move |p| (*p, *id))).collect();
        for member in self.members.values_mut() {
            member.target.clear();
        }
        for (partition, id) in wanted {
            let is_free = claimed.get(&partition).is_none_or(|owner| *owner == id);
            if is_free || !self.cooperative {
                self.members.get_mut(&id).expect("a member").target.insert(partition);
            }
        }
    }

    /// Whether offsets may be committed by it.
    pub fn accepts(&self, metadata: Metadata) -> Result<(), &'static str> {
        if metadata == Metadata::BLANK {
            return Ok(());
        }
        if !self.knows(metadata.member) {
            return Err("unknown member id");
        }
        if metadata.generation != self.generation {
            return Err("illegal generation");
        }
        Ok(())
    }

    /// Offsets of a transaction, until its marker comes.
    pub fn add_pending(&mut self, transaction: TransactionId, offsets: &[(i32, i64)]) {
        self.pending.entry(transaction).or_default().extend(offsets);
    }

    /// The marker that decides a transaction's offsets.
    pub fn mark(&mut self, transaction: TransactionId, commit: bool) {
        if let Some(offsets) = self.pending.remove(&transaction)
            && commit
        {
            self.committed.extend(offsets);
        }
    }

    /// Forgets what was committed.
    pub fn forget_offsets(&mut self) {
        self.committed.clear();
        self.pending.clear();
        self.replicated = None;
    }

    /// Commits without a transaction.
    pub fn commit(&mut self, offsets: &[(i32, i64)]) {
        self.committed.extend(offsets.iter().copied());
    }

    /// From now on, until then, offsets are told as they are now, though others may be committed.
    pub fn replicates_no_more(&mut self, until: u64) {
        self.replicated = Some((self.committed.clone(), until));
    }

    /// The committed offset as the coordinator tells it, be there a pending one or not.
    pub fn told(&self, partition: i32, now: u64) -> Option<i64> {
        match &self.replicated {
            Some((committed, until)) if now < *until => committed.get(&partition).copied(),
            _ => self.committed(partition),
        }
    }

    /// The committed offset, be there a pending one or not.
    pub fn committed(&self, partition: i32) -> Option<i64> {
        self.committed.get(&partition).copied()
    }

    /// Whether a transaction that is not decided has an offset of the partition.
    pub fn is_unstable(&self, partition: i32) -> bool {
        self.pending.values().flatten().any(|(of, _)| *of == partition)
    }
}
