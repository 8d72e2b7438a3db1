//! Settings of the AWS provider (spec 07 section 2.3). Each is a flag and an environment variable
//! of the same name, as in Karpenter.

mod instance_types;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use http::Uri;
use kerf_aws::AwsSettings;

use super::setting_reader::{SettingReader, names_of_given};
use crate::exit::Problem;
use crate::program::ProviderName;
pub(super) use instance_types::TypedInstanceTypeSettings;

/// Largest number of characters of the name of an EKS cluster.
const CLUSTER_NAME_CHARS_MAX: usize = 100;
/// Number of characters of a wrong name that a message shows.
const SHOWN_NAME_CHARS: usize = 40;
/// Shortest time for which images, subnets and security groups are not described again.
const REFRESH_INTERVAL_MIN: Duration = Duration::from_mins(1);

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
    #[command(flatten)]
    instance_types: TypedInstanceTypeSettings,
    /// Name of the SQS queue with interruption messages [default: none].
    #[arg(long, value_name = "NAME")]
    interruption_queue: Option<String>,
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
}

impl TypedAwsSettings {
    /// Combines flags, environment variables and defaults. Returns `None` for another provider;
    /// flags then cause a warning, and variables are ignored. Adds every invalid value to the
    /// problems of the reader.
    pub(super) fn resolve(self, provider: ProviderName, reader: &mut SettingReader<'_>) -> Option<AwsSettings> {
        match provider {
            ProviderName::Aws => Some(self.resolve_for_aws(reader)),
            ProviderName::Kwok => {
                reader.warn_about_flags(&self.given_flags(), provider);
                None
            }
        }
    }

    fn resolve_for_aws(self, reader: &mut SettingReader<'_>) -> AwsSettings {
        let cluster_name = reader.text(self.cluster_name, "CLUSTER_NAME").unwrap_or_default();
        let hint = "set --cluster-name or CLUSTER_NAME to the name of the EKS cluster";
        reader.problems.extend(cluster_name_problem(&cluster_name, hint));
        let mut settings = AwsSettings::new(cluster_name);
        settings.cluster_endpoint = reader.text(self.cluster_endpoint, "CLUSTER_ENDPOINT");
        if let Some(endpoint) = settings.cluster_endpoint.as_deref().filter(|endpoint| !is_absolute_url(endpoint)) {
            let message = format!("cluster endpoint URL is not valid (cluster-endpoint={endpoint})");
            let hint = "give a URL with scheme and host, for example https://example.com:443";
            reader.problems.push(Problem::new(message).with_hint(hint));
        }
        settings.cluster_ca_bundle = reader.text(self.cluster_ca_bundle, "CLUSTER_CA_BUNDLE");
        if settings.cluster_ca_bundle.as_deref().is_some_and(|bundle| !is_base64(bundle)) {
            let hint = "give the certificates as base64, for example the output of `base64 -w0 ca.crt`";
            reader.problems.push(Problem::new("cluster-ca-bundle is not valid base64").with_hint(hint));
        }
        settings.isolated_vpc = reader.boolean(self.isolated_vpc.as_deref(), "isolated-vpc", false);
        settings.eks_control_plane = reader.boolean(self.eks_control_plane.as_deref(), "eks-control-plane", false);
        self.instance_types.apply(&mut settings, reader);
        settings.interruption_queue = reader.text(self.interruption_queue, "INTERRUPTION_QUEUE");
        settings.disable_dry_run = reader.boolean(self.disable_dry_run.as_deref(), "disable-dry-run", false);
        settings.enable_zonal_shift = reader.boolean(self.enable_zonal_shift.as_deref(), "enable-zonal-shift", false);
        settings.ami_refresh_interval = refresh_interval(reader, self.ami_refresh_interval, "AMI_REFRESH_INTERVAL");
        settings.subnet_refresh_interval =
            refresh_interval(reader, self.subnet_refresh_interval, "SUBNET_REFRESH_INTERVAL");
        settings.security_group_refresh_interval =
            refresh_interval(reader, self.security_group_refresh_interval, "SECURITY_GROUP_REFRESH_INTERVAL");
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
            ("interruption-queue", self.interruption_queue.is_some()),
            ("disable-dry-run", self.disable_dry_run.is_some()),
            ("enable-zonal-shift", self.enable_zonal_shift.is_some()),
            ("ami-refresh-interval", self.ami_refresh_interval.is_some()),
            ("subnet-refresh-interval", self.subnet_refresh_interval.is_some()),
            ("security-group-refresh-interval", self.security_group_refresh_interval.is_some()),
        ];
        [names_of_given(flags), self.instance_types.given_flags()].concat()
    }
}

/// Returns the problem of a name that no EKS cluster has: it is empty, too long, or has characters
/// that EKS does not allow. `hint` says where an empty name can be set.
pub(super) fn cluster_name_problem(name: &str, hint: &str) -> Option<Problem> {
    if name.trim().is_empty() {
        return Some(Problem::new("missing field, cluster-name").with_hint(hint));
    }
    let is_allowed = |character: char| character.is_ascii_alphanumeric() || ['-', '_'].contains(&character);
    let has_valid_start = name.starts_with(|first: char| first.is_ascii_alphanumeric());
    if has_valid_start && name.chars().all(is_allowed) && name.len() <= CLUSTER_NAME_CHARS_MAX {
        return None;
    }
    let shown: String = name.chars().take(SHOWN_NAME_CHARS).collect();
    let dots = if shown.len() < name.len() { "..." } else { "" };
    let problem = Problem::new(format!("cluster-name: {:?} is not the name of an EKS cluster", shown + dots));
    Some(problem.with_hint(format!(
        "give at most {CLUSTER_NAME_CHARS_MAX} letters, digits, hyphens and underscores, a letter or digit first"
    )))
}

/// Returns true for text that decodes to at least one byte. The text may have several lines.
fn is_base64(text: &str) -> bool {
    let text: String = text.split_whitespace().collect();
    STANDARD.decode(text).is_ok_and(|bytes| !bytes.is_empty())
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
            "--cluster-ca-bundle=!!!",
            "--aws-feature-gates=NodeClassCEL,NodeClassCEL=maybe",
        ];
        let (_, problems, _) = resolve(ProviderName::Aws, &arguments, &[]);
        assert_eq!(
            problems,
            [
                "missing field, cluster-name",
                "cluster endpoint URL is not valid (cluster-endpoint=10.0.0.1)",
                "cluster-ca-bundle is not valid base64",
                "--isolated-vpc: \"yes\" is not a valid value, must be true or false",
                "vm-memory-overhead-percent cannot be negative",
                "reserved-enis cannot be negative",
                "parsing AWS feature gates, missing bool value for NodeClassCEL",
                "parsing AWS feature gates, invalid value of NodeClassCEL=maybe: it is not a boolean",
                "ami-refresh-interval must be at least 1m",
                "subnet-refresh-interval must be at least 1m",
                "security-group-refresh-interval must be at least 1m",
            ]
        );
    }

    #[test]
    fn a_ca_bundle_is_base64() {
        let problems = |bundle: &str| {
            resolve(ProviderName::Aws, &["--cluster-name=demo", &format!("--cluster-ca-bundle={bundle}")], &[]).1
        };
        for valid in ["", "Q0E=", "Q0E=\n", "LS0tLS1C\nRUdJTg=="] {
            assert_eq!(problems(valid), [""; 0], "{valid}");
        }
        for invalid in ["!!!", " ", "Q0", "-----BEGIN CERTIFICATE-----\nQ0E=\n-----END CERTIFICATE-----"] {
            assert_eq!(problems(invalid), ["cluster-ca-bundle is not valid base64"], "{invalid}");
        }
    }

    #[test]
    fn a_cluster_name_is_one_that_eks_allows() {
        let problems = |name: &str| resolve(ProviderName::Aws, &["--cluster-name", name], &[]).1;
        let long = "a".repeat(100);
        for valid in ["demo", "Demo_1-a", "1", long.as_str()] {
            assert_eq!(problems(valid), [""; 0], "{valid}");
        }
        for (invalid, shown) in [
            ("a b", "\"a b\""),
            ("a\nb", "\"a\\nb\""),
            ("_a", "\"_a\""),
            ("caf\u{e9}", "\"caf\u{e9}\""),
            (&"a".repeat(101), &format!("\"{}...\"", "a".repeat(40))),
        ] {
            assert_eq!(problems(invalid), [format!("cluster-name: {shown} is not the name of an EKS cluster")]);
        }
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
    fn the_interruption_queue_is_taken_without_a_warning() {
        let arguments = ["--cluster-name=demo", "--interruption-queue=q"];
        let (settings, problems, warnings) = resolve(ProviderName::Aws, &arguments, &[]);
        assert_eq!(settings.and_then(|settings| settings.interruption_queue).as_deref(), Some("q"));
        assert_eq!((problems, warnings), (vec![], vec![]));
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
