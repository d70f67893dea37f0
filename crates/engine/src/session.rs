//! One connection's state, owned by its worker.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use resp::Proto;

use crate::acl::User;
use crate::clients::Client;
use crate::gates::Durability;
use crate::pubsub::{Space, Subscriptions};
use crate::server::Server;
use crate::tracking::TrackingState;
use crate::transaction::Transaction;
use crate::watches::Watching;

/// CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplyMode {
    /// Replies are sent.
    #[default]
    On,
    /// None is.
    Off,
    /// The next command's is not; set by CLIENT REPLY SKIP.
    SkipNext,
    /// This command's is not.
    Skip,
}

/// One connection's state.
pub struct Session {
    /// What other threads see of it.
    pub client: Arc<Client>,
    /// Selected database.
    pub db: usize,
    /// Protocol version of its replies.
    pub proto: Proto,
    /// Who it is: what it may do.
    pub user: Arc<User>,
    /// It has given a password, or none was asked for when it came.
    pub authenticated: bool,
    /// It sent HELLO or CLIENT SETINFO: it can read today's reply shapes.
    pub introduced: bool,
    /// CLIENT REPLY.
    pub reply_mode: ReplyMode,
    /// CLIENT DURABILITY: what its replies wait for; `None`: what the server's do.
    pub durability: Option<Durability>,
    /// CLIENT NO-TOUCH: its reads leave the access clocks alone.
    pub no_touch: bool,
    /// READONLY was sent.
    pub readonly: bool,
    /// ASKING was sent just before.
    pub asking: bool,
    /// CLUSTER REDIRECTS PLAIN: its requests are not forwarded.
    pub wants_plain_redirects: bool,
    /// It sends slots that are being moved here (CLUSTER SYNCSLOTS).
    pub importing: bool,
    /// To be closed when its replies are sent (QUIT, CLIENT KILL of itself).
    pub close_after_reply: bool,
    /// What it has subscribed to, if anything.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// CLIENT TRACKING.
    pub tracking: Option<Box<TrackingState>>,
    /// A script of its runs: what that runs is shown to monitors as the script's.
    pub in_script: bool,
    /// Commands queued since MULTI.
    pub multi: Option<Box<Transaction>>,
    /// Keys that the next EXEC depends on.
    pub watching: Watching,
}

const _: () = assert!(size_of::<Session>() <= 72, "every idle connection carries one");

impl Session {
    /// A fresh connection, as the default user.
    pub fn new(client: Arc<Client>, user: Arc<User>) -> Session {
        let authenticated = user.is_open();
        client.user.store(user.id(), Relaxed);
        Session {
            client,
            user,
            db: 0,
            proto: Proto::V2,
            authenticated,
            introduced: false,
            reply_mode: ReplyMode::On,
            durability: None,
            no_touch: false,
            readonly: false,
            asking: false,
            wants_plain_redirects: false,
            importing: false,
            close_after_reply: false,
            subscriptions: None,
            tracking: None,
            in_script: false,
            multi: None,
            watching: Watching::default(),
        }
    }

    /// True if others send to this connection where it lives: it does not move to another worker.
    pub fn is_bound(&self) -> bool {
        let is_sent_to = self.client.is_monitor.load(Relaxed) || self.client.is_replica.load(Relaxed);
        self.subscriptions.is_some() || self.tracking.is_some() || is_sent_to
    }

    /// Shows other threads what it has subscribed to.
    pub(crate) fn tell_subscriptions(&self) {
        let count = |space| self.subscriptions.as_ref().map_or(0, |all| all.names(space).len() as u32);
        self.client.channels.store(count(Space::Channel) + count(Space::NodeChannel), Relaxed);
        self.client.patterns.store(count(Space::Pattern) + count(Space::NodePattern), Relaxed);
        self.client.shard_channels.store(count(Space::Shard), Relaxed);
    }

    /// Ends its watches.
    pub(crate) fn end_watches(&mut self, server: &Server) {
        server.watches.end(self.watching.take());
        self.tell_transaction();
    }

    /// Ends its transaction and its watches, without running anything.
    pub(crate) fn end_transaction(&mut self, server: &Server) {
        self.multi = None;
        self.end_watches(server);
    }

    /// Shows other threads how far its transaction is.
    pub(crate) fn tell_transaction(&self) {
        let queued = self.multi.as_ref().map_or(-1, |multi| multi.len() as i32);
        self.client.queued.store(queued, Relaxed);
        self.client.watching.store(self.watching.len() as u32, Relaxed);
    }

    /// The connection is this user from now on.
    pub fn become_user(&mut self, user: Arc<User>, authenticated: bool) {
        self.client.user.store(user.id(), Relaxed);
        self.user = user;
        self.authenticated = authenticated;
    }

    /// Whether it listens to channels that its user may not use any more.
    pub fn listens_unduly(&self) -> bool {
        let Some(subscriptions) = &self.subscriptions else { return false };
        let Some(user) = self.user.renewed() else { return true };
        let listens_to = |space| subscriptions.names(space).iter().map(move |name| (space, name));
        let mut names = Space::ALL.into_iter().flat_map(listens_to);
        names.any(|(space, name)| !user.may_use_channel(name, space == Space::Pattern))
    }

    /// The connection as a command sees it that runs apart from it: on the long lane, or when it is served.
    pub fn snapshot(&self) -> Session {
        Session {
            client: self.client.clone(),
            user: self.user.clone(),
            close_after_reply: false,
            subscriptions: None,
            tracking: None,
            multi: None,
            watching: Watching::default(),
            ..*self
        }
    }
}
