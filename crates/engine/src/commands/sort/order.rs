//! Elements with what they are ordered by.

use std::cmp::Ordering;

use base::num::parse_f64;
use store::courtesy;

use super::options::{By, SortOptions};
use super::{Element, NOT_NUMBERS};
use crate::fault::CmdResult;
use crate::value::OwnedStr;

/// Elements to be sorted.
pub(super) enum Keyed {
    /// By themselves, or not at all.
    Plain(Vec<Element>),
    /// By numbers, and by themselves where those are equal.
    Numbers(Vec<(f64, Element)>),
    /// By texts; elements without one come first.
    Texts(Vec<(Option<Element>, Element)>),
}

impl Keyed {
    /// Puts what they are ordered by to elements; `look_up` finds it where it is not they themselves.
    pub(super) fn weigh(
        elements: Vec<Element>,
        options: &SortOptions,
        mut look_up: impl FnMut(&[u8]) -> Option<OwnedStr>,
    ) -> CmdResult<Keyed> {
        let by_pattern = options.by_pattern().is_some();
        match (&options.by, options.alpha) {
            (By::Nothing, _) | (By::Element, true) => Ok(Keyed::Plain(elements)),
            (By::Pattern(_), true) => {
                let text = |element: &[u8]| look_up(element).map(|text| text.as_str().to_vec().into());
                let mut text = text;
                Ok(Keyed::Texts(elements.into_iter().map(|element| (text(&element), element)).collect()))
            }
            (By::Element | By::Pattern(_), false) => {
                let mut number = |element: &[u8]| match by_pattern {
                    false => weight(element),
                    // What is not there weighs nothing.
                    true => look_up(element).map_or(Some(0.0), |text| weight(&text.as_str().to_vec())),
                };
                let weighed = elements.into_iter().map(|element| Some((number(&element)?, element)));
                weighed.collect::<Option<_>>().map(Keyed::Numbers).ok_or(NOT_NUMBERS)
            }
        }
    }

    /// The elements in their order, cut to those that are wanted.
    pub(super) fn sorted(self, options: &SortOptions) -> Vec<Element> {
        // Where results are stored they must not depend on how a machine collates, and whole texts are compared.
        let whole = options.store.is_some();
        let directed = |ordering: Ordering| {
            courtesy::note_work(1);
            if options.descending { ordering.reverse() } else { ordering }
        };
        let sorted = match self {
            Keyed::Plain(elements) if options.by == By::Nothing => elements,
            Keyed::Plain(mut elements) => {
                elements.sort_by(|a, b| directed(compare_texts(a, b, whole)));
                elements
            }
            Keyed::Numbers(mut weighed) => {
                weighed.sort_by(|(a, a_element), (b, b_element)| {
                    let by_number = a.partial_cmp(b).unwrap_or(Ordering::Equal);
                    directed(by_number.then_with(|| a_element.cmp(b_element)))
                });
                weighed.into_iter().map(|(_, element)| element).collect()
            }
            Keyed::Texts(mut weighed) => {
                weighed.sort_by(|(a, _), (b, _)| {
                    directed(match (a, b) {
                        (Some(a), Some(b)) => compare_texts(a, b, whole),
                        (a, b) => a.is_some().cmp(&b.is_some()),
                    })
                });
                weighed.into_iter().map(|(_, element)| element).collect()
            }
        };
        options.cut(sorted)
    }
}

/// The number that a text is to C's `strtod`: spaces before it and a NUL byte after it do not matter, and nothing is 0.
/// None for anything more, and for what is out of range.
fn weight(text: &[u8]) -> Option<f64> {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let spaces = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    parse_f64(&text[spaces..]).filter(|value| !value.is_subnormal())
}

/// Byte by byte: to the end, or to a NUL byte.
fn compare_texts(a: &[u8], b: &[u8], whole: bool) -> Ordering {
    if whole {
        return a.cmp(b);
    }
    let ended = |text: &[u8]| text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    a[..ended(a)].cmp(&b[..ended(b)])
}
