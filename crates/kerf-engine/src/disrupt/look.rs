//! One look at the world, for whoever carries out what it finds and then looks again: the first method that acts, with all its
//! commands that have nothing to do with each other. A method whose commands came to nothing can be passed over in the next look.

use kerf_api::slim::Str;

use super::command::{Command, DisruptionPlan, Method};
use super::draft::Draft;
use super::input::DisruptionSettings;
use super::pass::Pass;
use super::survey::Survey;
use super::without_failed_launches;
use crate::world::Input;

/// What a method had to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The method.
    pub method: Method,
    /// How many nodes it could have taken, budgets aside.
    pub eligible: usize,
    /// How many commands it found.
    pub commands: usize,
}

/// One pass over the methods that come after `after`, until one of them acts. `hear` is told of each as it is done, so that the caller
/// can take the time.
pub fn look(
    input: &Input,
    settings: &DisruptionSettings,
    after: Option<Method>,
    mut hear: impl FnMut(Heard),
) -> DisruptionPlan {
    let world = without_failed_launches(input);
    let survey = Survey::new(&world);
    let mut draft = Draft::new(&survey);
    let budgets = draft.budgets.clone();
    let mut pass = Pass::new(&survey, settings, &budgets);
    let mut found: Vec<Command> = Vec::new();
    for method in Method::ALL.into_iter().filter(|method| after.is_none_or(|after| *method > after)) {
        let eligible = pass.eligible(method);
        if eligible > 0 {
            found = pass.commands_of(method);
        }
        hear(Heard { method, eligible, commands: found.len() });
        if !found.is_empty() {
            break;
        }
    }
    let said = pass.finish(&found);
    draft.count(&said);
    draft.add(input, settings, found);
    draft.close(said);
    draft.finish(input)
}

/// The nodes of a command and those that take in its pods.
pub(crate) fn touched(command: &Command) -> impl Iterator<Item = &Str> {
    let receiving = command.placements.iter().map(|placement| &placement.node);
    command.nodes.iter().map(|node| &node.name).chain(receiving)
}
