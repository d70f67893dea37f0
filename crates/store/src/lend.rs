//! Lending a borrow to code that can keep none: callbacks that are made once and live for long.
//!
//! Whoever has the borrow gives it for the time of a call ([`Lent::during`]); whatever runs within that call, and has the
//! place, may ask for it ([`Lent::ask`]).

#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::transmute;
use std::ptr::NonNull;

/// What is lent: it answers questions `Q` with `A`, and is shown a `C` of the one who asks.
type Answer<'a, C, Q, A> = dyn FnMut(&C, Q) -> A + 'a;

/// Where a borrow lies while it is lent, and whether it does.
type Place<C, Q, A> = Cell<Option<NonNull<Answer<'static, C, Q, A>>>>;

/// A place to lend something in. Invariant *lent*: the pointer in it is valid and the only way to what it points to.
pub struct Lent<C: ?Sized + 'static, Q: 'static, A: 'static>(Place<C, Q, A>);

impl<C: ?Sized, Q, A> Default for Lent<C, Q, A> {
    fn default() -> Lent<C, Q, A> {
        Lent(Cell::new(None))
    }
}

/// Sets a place back when it goes, also where a panic passes.
struct SetBack<'a, T: Copy>(&'a Cell<Option<T>>, Option<T>);

impl<T: Copy> Drop for SetBack<'_, T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

impl<C: ?Sized, Q, A> Lent<C, Q, A> {
    /// Lends `answer` until `work` is done.
    pub fn during<R>(&self, answer: &mut Answer<'_, C, Q, A>, work: impl FnOnce() -> R) -> R {
        let pointer = NonNull::from(answer);
        // SAFETY: only the bound on the borrow's lifetime changes. The pointer does not outlive the borrow: `SetBack`
        // takes it out of the place before this returns or unwinds, `ask` copies it nowhere else, and as neither the
        // place nor the pointer can be sent to another thread, no `ask` is under way then.
        let pointer: NonNull<Answer<'static, C, Q, A>> = unsafe { transmute(pointer) };
        let _back = SetBack(&self.0, self.0.replace(Some(pointer)));
        work()
    }

    /// Asks what is lent; `None` if nothing is, or if it is answering already.
    pub fn ask(&self, asker: &C, question: Q) -> Option<A> {
        let mut pointer = self.0.take()?;
        let _back = SetBack(&self.0, Some(pointer));
        // SAFETY: *lent*: `during` put the pointer in, and it is still under way, with its borrow lent out and not used
        // otherwise. While we answer, the place is empty: nobody makes a second reference of it.
        let answer = unsafe { pointer.as_mut() };
        Some(answer(asker, question))
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn what_is_lent_answers_until_it_is_taken_back() {
        let place: Lent<str, u32, u32> = Lent::default();
        assert_eq!(place.ask("a", 1), None);
        let mut sum = 0;
        let mut add = |asker: &str, more: u32| {
            sum += more + asker.len() as u32;
            sum
        };
        let last = place.during(&mut add, || {
            assert_eq!(place.ask("a", 1), Some(2));
            place.ask("bc", 10)
        });
        assert_eq!((last, sum), (Some(14), 14));
        assert_eq!(place.ask("a", 1), None);
    }

    #[test]
    fn it_is_lent_once_at_a_time() {
        let place: Lent<(), u32, Option<u32>> = Lent::default();
        let mut answer = |(): &(), depth: u32| {
            assert_eq!(place.ask(&(), depth), None, "it is answering");
            let within = place.during(&mut |(), depth| Some(depth * 100), || place.ask(&(), depth));
            assert_eq!(place.ask(&(), depth), None, "it is still answering");
            within.flatten()
        };
        let answered = place.during(&mut answer, || (place.ask(&(), 1), place.ask(&(), 2)));
        assert_eq!(answered, (Some(Some(100)), Some(Some(200))));
    }

    #[test]
    fn a_panic_takes_it_back() {
        let place: Lent<(), bool, u32> = Lent::default();
        let mut count = 0;
        let mut answer = |(): &(), panics: bool| {
            count += 1;
            assert!(!panics, "as told");
            count
        };
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            place.during(&mut answer, || {
                let caught = catch_unwind(AssertUnwindSafe(|| place.ask(&(), true)));
                assert!(caught.is_err());
                assert_eq!(place.ask(&(), false), Some(2), "it answers again");
                place.ask(&(), true)
            })
        }));
        assert!(panicked.is_err());
        assert_eq!(place.ask(&(), false), None);
        assert_eq!(count, 3);
    }
}
