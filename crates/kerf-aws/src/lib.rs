//! The EC2 provider, less the wire: every rule of how EC2 machines are described, chosen, launched and cleaned up, with
//! the AWS calls as traits. It never depends on the AWS SDK, so that all of it is built and tested in the fast loop.
