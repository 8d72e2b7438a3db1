//! May this pod run there, is this budget kept, what does it cost? The second opinion.
//!
//! One predicate per rule, in the words of the Kubernetes documentation, slow and obvious. The property tests ask it
//! about every answer of the engine, and the sandbox's scheduler uses its predicates as filters. It never depends on the
//! engine: an error that both share would be seen by neither.
