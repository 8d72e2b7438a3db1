//! What a cloud provider must do for Kerf: the trait, its error classes, and the decorators around it. A provider
//! describes its machines in the words of the engine's catalogue and never takes a scheduling decision itself.
