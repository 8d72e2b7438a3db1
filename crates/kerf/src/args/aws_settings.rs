//! Settings of the AWS provider (spec 07 section 2.3). Each is a flag and an environment variable
//! of the same name, as in Karpenter.

use std::time::Duration;

use clap::Args;
use http::Uri;
use kerf_aws::AwsSettings;

use super::setting_reader::SettingReader;
use super::settings::parse_bool;
use crate::exit::Problem;
use crate::program::ProviderName;

/// Shortest time for which images, subnets and security groups are not described again.
const REFRESH_INTERVAL_MIN: Duration = Duration::from_mins(1);

/// AWS feature gates of Karpenter 1.15 whose features this release does not have.
const UNUSED_GATES: [&str; 3] = ["DRANVIDIAGPU", "DRAEFA", "RebootForRepair"];

/// Flags of the AWS provider.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "AWS")]
pub(super) struct TypedAwsSettings {
    /// Name of the EKS cluster; required with --provider aws.
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// URL of the API server for nodes [default: read from EKS].
    #[arg(long, value_name = "URL")]
    cluster_endpoint: Option<String>,
    /// CA certificate of the API server for nodes, base64 [default: that of Kerf's connection].
    #[arg(long, value_name = "BASE64")]
    cluster_ca_bundle: Option<String>,
    /// Call only services that have VPC endpoints [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    isolated_vpc: Option<String>,
    /// Read the Kubernetes version from EKS instead of the API server [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    eks_control_plane: Option<String>,
    /// Fraction of an instance's memory that is assumed lost until its node has reported it
    /// [default: 0.075].
    #[arg(long, value_name = "FRACTION", allow_hyphen_values = true)]
    vm_memory_overhead_percent: Option<f64>,
    /// Name of the SQS queue with interruption messages [default: none].
    #[arg(long, value_name = "NAME")]
    interruption_queue: Option<String>,
    /// Network interfaces of each instance that pods cannot use [default: 0].
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    reserved_enis: Option<i64>,
    /// Validate node classes without dry runs [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    disable_dry_run: Option<String>,
    /// Honour zonal shifts of ARC [default: false].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    enable_zonal_shift: Option<String>,
    /// Time for which images are not described again; at least 1m [default: 1m].
    #[arg(long, value_name = "DURATION")]
    ami_refresh_interval: Option<String>,
    /// Time for which subnets are not described again; at least 1m [default: 1m].
    #[arg(long, value_name = "DURATION")]
    subnet_refresh_interval: Option<String>,
    /// Time for which security groups are not described again; at least 1m [default: 1m].
    #[arg(long, value_name = "DURATION")]
    security_group_refresh_interval: Option<String>,
    /// AWS feature gates: `NodeClassCEL=true` evaluates expressions in spec.kubelet [default:
    /// NodeClassCEL=false].
    #[arg(long, value_name = "NAME=BOOL,...")]
    aws_feature_gates: Option<String>,
}

impl TypedAwsSettings {
    /// Combines flags, environment variables and defaults. Returns `None` for another provider;
    /// flags then cause a warning, and variables are ignored. Adds every invalid value to the
    /// problems of the reader.
    pub(super) fn resolve(self, provider: ProviderName, reader: &mut SettingReader<'_>) -> Option<AwsSettings> {
        match provider {
            ProviderName::Aws => Some(self.resolve_for_aws(reader)),
            ProviderName::Kwok => {
                reader.warnings.extend(
                    self.given_flags()
                        .into_iter()
                        .map(|flag| format!("--{flag} has no effect with --provider {}", ProviderName::Kwok.name())),
                );
                None
            }
        }
    }

    fn resolve_for_aws(self, reader: &mut SettingReader<'_>) -> AwsSettings {
        let cluster_name = reader.text(self.cluster_name, "CLUSTER_NAME").unwrap_or_default();
        if cluster_name.is_empty() {
            let hint = "set --cluster-name or CLUSTER_NAME to the name of the EKS cluster";
            reader.problems.push(Problem::new("missing field, cluster-name").with_hint(hint));
        }
        let mut settings = AwsSettings::new(cluster_name);
        settings.cluster_endpoint = reader.text(self.cluster_endpoint, "CLUSTER_ENDPOINT");
        if let Some(endpoint) = settings.cluster_endpoint.as_deref().filter(|endpoint| !is_absolute_url(endpoint)) {
            let message = format!("cluster endpoint URL is not valid (cluster-endpoint={endpoint})");
            let hint = "give a URL with scheme and host, for example https://example.com:443";
            reader.problems.push(Problem::new(message).with_hint(hint));
        }
        settings.cluster_ca_bundle = reader.text(self.cluster_ca_bundle, "CLUSTER_CA_BUNDLE");
        settings.isolated_vpc = reader.boolean(self.isolated_vpc.as_deref(), "isolated-vpc", false);
        settings.eks_control_plane = reader.boolean(self.eks_control_plane.as_deref(), "eks-control-plane", false);
        let overhead = reader.number(self.vm_memory_overhead_percent, "VM_MEMORY_OVERHEAD_PERCENT", 0.075);
        if overhead < 0.0 {
            reader.problems.push(Problem::new("vm-memory-overhead-percent cannot be negative"));
        } else if !overhead.is_finite() {
            reader.problems.push(Problem::new("vm-memory-overhead-percent must be a finite number"));
        }
        settings.vm_memory_overhead_percent = overhead;
        settings.interruption_queue = reader.text(self.interruption_queue, "INTERRUPTION_QUEUE");
        if let Some(queue) = &settings.interruption_queue {
            reader.warnings.push(format!("the interruption queue {queue} is not read: this release cannot do it yet"));
        }
        let reserved_enis = reader.number(self.reserved_enis, "RESERVED_ENIS", 0_i64);
        if reserved_enis < 0 {
            reader.problems.push(Problem::new("reserved-enis cannot be negative"));
        }
        settings.reserved_enis = u32::try_from(reserved_enis.max(0)).unwrap_or(u32::MAX);
        settings.disable_dry_run = reader.boolean(self.disable_dry_run.as_deref(), "disable-dry-run", false);
        settings.enable_zonal_shift = reader.boolean(self.enable_zonal_shift.as_deref(), "enable-zonal-shift", false);
        settings.ami_refresh_interval = refresh_interval(reader, self.ami_refresh_interval, "AMI_REFRESH_INTERVAL");
        settings.subnet_refresh_interval =
            refresh_interval(reader, self.subnet_refresh_interval, "SUBNET_REFRESH_INTERVAL");
        settings.security_group_refresh_interval =
            refresh_interval(reader, self.security_group_refresh_interval, "SECURITY_GROUP_REFRESH_INTERVAL");
        let gates = reader.text(self.aws_feature_gates, "AWS_FEATURE_GATES").unwrap_or_default();
        settings.node_class_cel = is_node_class_cel_enabled(&gates, reader);
        settings
    }

    /// Returns the names of the flags that have a value.
    fn given_flags(&self) -> Vec<&'static str> {
        let flags = [
            ("cluster-name", self.cluster_name.is_some()),
            ("cluster-endpoint", self.cluster_endpoint.is_some()),
            ("cluster-ca-bundle", self.cluster_ca_bundle.is_some()),
            ("isolated-vpc", self.isolated_vpc.is_some()),
            ("eks-control-plane", self.eks_control_plane.is_some()),
            ("vm-memory-overhead-percent", self.vm_memory_overhead_percent.is_some()),
            ("interruption-queue", self.interruption_queue.is_some()),
            ("reserved-enis", self.reserved_enis.is_some()),
            ("disable-dry-run", self.disable_dry_run.is_some()),
            ("enable-zonal-shift", self.enable_zonal_shift.is_some()),
            ("ami-refresh-interval", self.ami_refresh_interval.is_some()),
            ("subnet-refresh-interval", self.subnet_refresh_interval.is_some()),
            ("security-group-refresh-interval", self.security_group_refresh_interval.is_some()),
            ("aws-feature-gates", self.aws_feature_gates.is_some()),
        ];
        flags.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

/// Returns true for a URL with scheme and host.
pub(super) fn is_absolute_url(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    uri.scheme().is_some() && uri.host().is_some_and(|host| !host.is_empty())
}

fn refresh_interval(reader: &mut SettingReader<'_>, flag: Option<String>, variable: &str) -> Duration {
    let interval = reader.duration(flag, variable, REFRESH_INTERVAL_MIN);
    if interval < REFRESH_INTERVAL_MIN {
        let name = variable.to_lowercase().replace('_', "-");
        reader.problems.push(Problem::new(format!("{name} must be at least 1m")));
    }
    interval
}

/// Parses `Name=bool,…`. Unknown names are ignored with a warning.
fn is_node_class_cel_enabled(text: &str, reader: &mut SettingReader<'_>) -> bool {
    let mut is_enabled = false;
    for token in text.split(',').map(str::trim).filter(|token| !token.is_empty()) {
        let value = token.split_once('=').map(|(name, value)| (name.trim(), parse_bool(value.trim())));
        match value {
            None => {
                let message = format!("parsing AWS feature gates, missing bool value for {token}");
                reader.problems.push(Problem::new(message));
            }
            Some((_, None)) => {
                let message = format!("parsing AWS feature gates, invalid value of {token}: it is not a boolean");
                reader.problems.push(Problem::new(message));
            }
            Some(("NodeClassCEL", Some(value))) => is_enabled = value,
            Some((known, Some(value))) if UNUSED_GATES.contains(&known) => {
                if value {
                    reader
                        .warnings
                        .push(format!("AWS feature gates: {known} has no effect: this release cannot do it yet"));
                }
            }
            Some((unknown, Some(_))) => {
                reader.warnings.push(format!("AWS feature gates: {unknown} is unknown and has no effect"));
            }
        }
    }
    is_enabled
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct AwsCli {
        #[command(flatten)]
        aws: TypedAwsSettings,
    }

    /// Returns the settings, the problems and the warnings.
    fn resolve(
        provider: ProviderName,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> (Option<AwsSettings>, Vec<String>, Vec<String>) {
        let typed = AwsCli::try_parse_from([&["kerf"], arguments].concat()).unwrap();
        let environment =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let mut reader = SettingReader::new(&environment);
        let settings = typed.aws.resolve(provider, &mut reader);
        (settings, reader.problems.iter().map(Problem::to_string).collect(), reader.warnings)
    }

    // spec 07 #1 (the settings of AWS)
    #[test]
    fn the_defaults_apply_with_only_a_cluster_name() {
        let (settings, problems, warnings) = resolve(ProviderName::Aws, &[], &[("CLUSTER_NAME", "demo")]);
        assert_eq!(settings, Some(AwsSettings::new("demo")));
        assert_eq!((problems, warnings), (vec![], vec![]));
    }

    #[test]
    fn flags_win_over_variables_and_all_settings_are_read() {
        let variables = [
            ("CLUSTER_NAME", "ignored"),
            ("CLUSTER_ENDPOINT", "https://10.0.0.1:6443"),
            ("CLUSTER_CA_BUNDLE", "Q0E="),
            ("ISOLATED_VPC", "t"),
            ("EKS_CONTROL_PLANE", "true"),
            ("VM_MEMORY_OVERHEAD_PERCENT", "0.1"),
            ("RESERVED_ENIS", "2"),
            ("DISABLE_DRY_RUN", "true"),
            ("AMI_REFRESH_INTERVAL", "5m"),
            ("SUBNET_REFRESH_INTERVAL", "2m"),
            ("SECURITY_GROUP_REFRESH_INTERVAL", "3m"),
            ("AWS_FEATURE_GATES", "NodeClassCEL=false"),
        ];
        let arguments = [
            "--cluster-name=demo",
            "--aws-feature-gates",
            " NodeClassCEL = true,Other=true,DRAEFA=true,RebootForRepair=false",
        ];
        let (settings, problems, warnings) = resolve(ProviderName::Aws, &arguments, &variables);
        let expected = AwsSettings {
            cluster_endpoint: Some("https://10.0.0.1:6443".to_owned()),
            cluster_ca_bundle: Some("Q0E=".to_owned()),
            isolated_vpc: true,
            eks_control_plane: true,
            vm_memory_overhead_percent: 0.1,
            reserved_enis: 2,
            disable_dry_run: true,
            ami_refresh_interval: Duration::from_mins(5),
            subnet_refresh_interval: Duration::from_mins(2),
            security_group_refresh_interval: Duration::from_mins(3),
            node_class_cel: true,
            ..AwsSettings::new("demo")
        };
        assert_eq!((settings, problems), (Some(expected), vec![]));
        let expected = [
            "AWS feature gates: Other is unknown and has no effect",
            "AWS feature gates: DRAEFA has no effect: this release cannot do it yet",
        ];
        assert_eq!(warnings, expected);
    }

    // spec 07 #10, #11, spec 10 #113
    #[test]
    fn all_invalid_settings_are_reported_together() {
        let arguments = [
            "--cluster-endpoint=10.0.0.1",
            "--vm-memory-overhead-percent=-0.1",
            "--reserved-enis=-1",
            "--ami-refresh-interval=59s",
            "--subnet-refresh-interval=59s",
            "--security-group-refresh-interval=30s",
            "--isolated-vpc=yes",
            "--aws-feature-gates=NodeClassCEL,NodeClassCEL=maybe",
        ];
        let (_, problems, _) = resolve(ProviderName::Aws, &arguments, &[]);
        assert_eq!(
            problems,
            [
                "missing field, cluster-name",
                "cluster endpoint URL is not valid (cluster-endpoint=10.0.0.1)",
                "--isolated-vpc: \"yes\" is not a valid value, must be true or false",
                "vm-memory-overhead-percent cannot be negative",
                "reserved-enis cannot be negative",
                "ami-refresh-interval must be at least 1m",
                "subnet-refresh-interval must be at least 1m",
                "security-group-refresh-interval must be at least 1m",
                "parsing AWS feature gates, missing bool value for NodeClassCEL",
                "parsing AWS feature gates, invalid value of NodeClassCEL=maybe: it is not a boolean",
            ]
        );
    }

    // spec 07 #9
    #[test]
    fn an_invalid_variable_falls_back_to_the_default() {
        let variables = [("CLUSTER_NAME", "demo"), ("VM_MEMORY_OVERHEAD_PERCENT", "much"), ("ISOLATED_VPC", "maybe")];
        let (settings, problems, warnings) = resolve(ProviderName::Aws, &[], &variables);
        assert_eq!((settings, problems), (Some(AwsSettings::new("demo")), vec![]));
        assert_eq!(
            warnings,
            [
                "ISOLATED_VPC: \"maybe\" is not a valid value; the default, false, is used",
                "VM_MEMORY_OVERHEAD_PERCENT: \"much\" is not a valid value; the default, 0.075, is used",
            ]
        );
    }

    #[test]
    fn parts_that_are_not_built_yet_are_named() {
        let arguments = ["--cluster-name=demo", "--interruption-queue=q"];
        let (_, problems, warnings) = resolve(ProviderName::Aws, &arguments, &[]);
        assert_eq!(problems, [""; 0]);
        assert_eq!(warnings, ["the interruption queue q is not read: this release cannot do it yet"]);
    }

    #[test]
    fn another_provider_ignores_the_variables_and_warns_about_flags() {
        let variables = [("CLUSTER_NAME", "demo"), ("CLUSTER_ENDPOINT", "nonsense")];
        assert_eq!(resolve(ProviderName::Kwok, &[], &variables), (None, vec![], vec![]));
        let (settings, problems, warnings) = resolve(ProviderName::Kwok, &["--cluster-name=demo"], &[]);
        assert_eq!((settings, problems), (None, vec![]));
        assert_eq!(warnings, ["--cluster-name has no effect with --provider kwok"]);
    }
}
