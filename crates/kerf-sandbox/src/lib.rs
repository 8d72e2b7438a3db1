//! A whole Kubernetes cluster in one process: API server, workload controllers, scheduler, kubelets, faults, virtual time.
//! It is where newcomers meet Kerf and where every integration test runs. It never depends on the engine: its scheduler is
//! the judge of the engine's predictions.
