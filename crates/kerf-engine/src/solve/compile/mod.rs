//! Turns a world and its pods into a [`super::Problem`]: classes, groups and their counts, nodes by shape.

mod classes;
mod groups;
mod places;

pub(crate) use classes::classes;
pub(crate) use groups::counts;
pub(crate) use places::{domains, pre_filter, reservations, shapes};
