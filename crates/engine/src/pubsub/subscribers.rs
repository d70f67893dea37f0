//! Which connections of one worker have subscribed to what.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use resp::Proto;

use super::{Publication, Space};

/// The subscribed connections of a worker, by the number it knows them by.
#[derive(Default)]
pub struct Subscribers {
    names: [HashMap<Box<[u8]>, BTreeSet<usize>>; Space::EVERY.len()],
}

impl Subscribers {
    /// A connection has subscribed.
    pub fn add(&mut self, space: Space, name: &[u8], token: usize) {
        self.names[space.index()].entry(name.into()).or_default().insert(token);
    }

    /// A connection has unsubscribed.
    pub fn remove(&mut self, space: Space, name: &[u8], token: usize) {
        let names = &mut self.names[space.index()];
        let Some(tokens) = names.get_mut(name) else { return };
        tokens.remove(&token);
        if tokens.is_empty() {
            names.remove(name);
        }
    }

    /// All subscriptions in a space: each connection's number, and the name.
    pub(super) fn all(&self, space: Space) -> impl Iterator<Item = (usize, Box<[u8]>)> + '_ {
        let names = self.names[space.index()].iter();
        names.flat_map(|(name, tokens)| tokens.iter().map(|token| (*token, name.clone())))
    }

    /// Hands a message to all who get it: `proto` tells a connection's protocol version, `send` sends it bytes.
    pub fn deliver(
        &self,
        publication: &Publication,
        mut send: impl FnMut(usize, &mut dyn FnMut(Proto) -> Arc<[u8]>),
    ) {
        for published in &publication.to {
            let Some(tokens) = self.names[published.space.index()].get(&published.name) else { continue };
            for token in tokens {
                send(*token, &mut |proto| published.bytes(publication, proto).clone());
            }
        }
    }
}
