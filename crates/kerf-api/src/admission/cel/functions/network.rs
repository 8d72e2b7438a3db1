//! IP addresses, networks and URLs. As in Kubernetes, addresses with a zone and IPv4-mapped IPv6
//! addresses are rejected.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::str::FromStr;

use super::super::super::text;
use super::super::super::url::Url;
use super::super::value::{Arguments, CelMapKey, EvalFailure, EvalResult, Map, Value, error, no_such_overload};

/// An IP address and the length of its network prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Self { address, bits: self.bits }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4()
            && Self { address, bits: self.bits }.masked().address == self.masked().address
    }
}

fn parse_ip(raw: &str) -> Result<IpAddr, String> {
    let quoted = text::quote(raw);
    if raw.contains('%') && raw.contains(':') {
        return Err(format!("IP address {quoted} with zone value is not allowed"));
    }
    match IpAddr::from_str(raw) {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(format!(
            "IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): unable to parse IP"
        )),
    }
}

fn parse_cidr(raw: &str) -> Result<Cidr, String> {
    let quoted = text::quote(raw);
    let parse_error = |why: &str| {
        Err(format!("network address parse error during conversion from string: netip.ParsePrefix({quoted}): {why}"))
    };
    let Some((address, bits)) = raw.rsplit_once('/') else { return parse_error("no '/'") };
    let Ok(address) = IpAddr::from_str(address) else { return parse_error("unable to parse IP") };
    let canonical =
        bits == "0" || (!bits.starts_with('0') && !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit()));
    let Some(bits) = bits.parse::<u8>().ok().filter(|_| canonical) else { return parse_error("bad bits after slash") };
    if bits > if address.is_ipv4() { 32 } else { 128 } {
        return parse_error("prefix length out of range");
    }
    if let IpAddr::V6(v6) = address
        && v6.to_ipv4_mapped().is_some()
    {
        return Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"));
    }
    Ok(Cidr { address, bits })
}

pub(in super::super) fn ip<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => parse_ip(text).map_or_else(error, |address| Ok(Value::Ip(address))),
        [Value::Cidr(cidr)] => Ok(Value::Ip(cidr.address)),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn is_ip<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => Ok(Value::Bool(parse_ip(text).is_ok())),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn is_canonical<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => {
            parse_ip(text).map_or_else(error, |address| Ok(Value::Bool(address.to_string() == **text)))
        }
        _ => no_such_overload(),
    }
}

fn ip_argument(args: &Arguments<'_, '_>) -> Result<IpAddr, EvalFailure> {
    match &args.values[..] {
        [Value::Ip(address)] => Ok(*address),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn family<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Int(if ip_argument(&args)?.is_ipv4() { 4 } else { 6 }))
}

pub(in super::super) fn is_unspecified<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Bool(ip_argument(&args)?.is_unspecified()))
}

pub(in super::super) fn is_loopback<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Bool(ip_argument(&args)?.is_loopback()))
}

pub(in super::super) fn is_link_local_multicast<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Bool(match ip_argument(&args)? {
        IpAddr::V4(address) => matches!(address.octets(), [224, 0, 0, _]),
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }))
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.segments()[0] & 0xffc0 == 0xfe80,
    }
}

pub(in super::super) fn is_link_local_unicast<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    Ok(Value::Bool(link_local_unicast(ip_argument(&args)?)))
}

pub(in super::super) fn is_global_unicast<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let address = ip_argument(&args)?;
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let special =
        address.is_unspecified() || address.is_loopback() || address.is_multicast() || link_local_unicast(address);
    Ok(Value::Bool(!broadcast && !special))
}

pub(in super::super) fn cidr<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => parse_cidr(text).map_or_else(
            |text| error(format!("network address parse error during conversion from string: {text}")),
            |cidr| Ok(Value::Cidr(cidr)),
        ),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn is_cidr<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => Ok(Value::Bool(parse_cidr(text).is_ok())),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn contains_ip<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Cidr(cidr), Value::Ip(address)] => Ok(Value::Bool(cidr.contains(*address))),
        [Value::Cidr(cidr), Value::String(text)] => {
            parse_ip(text).map_or_else(error, |address| Ok(Value::Bool(cidr.contains(address))))
        }
        _ => no_such_overload(),
    }
}

pub(in super::super) fn contains_cidr<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let within = |outer: &Cidr, inner: Cidr| Ok(Value::Bool(outer.bits <= inner.bits && outer.contains(inner.address)));
    match &args.values[..] {
        [Value::Cidr(outer), Value::Cidr(inner)] => within(outer, *inner),
        [Value::Cidr(outer), Value::String(text)] => parse_cidr(text).map_or_else(
            |text| error(format!("network address parse error during conversion from string: {text}")),
            |inner| within(outer, inner),
        ),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn prefix_length<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Cidr(cidr)] => Ok(Value::Int(cidr.bits.into())),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn masked<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Cidr(cidr)] => Ok(Value::Cidr(cidr.masked())),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn url<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => match Url::parse(text) {
            Some(url) => Ok(Value::Url(Rc::new(url))),
            None => error(format!(
                "URL parse error during conversion from string: parse {}: invalid URI for request",
                text::quote(text)
            )),
        },
        _ => no_such_overload(),
    }
}

pub(in super::super) fn is_url<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_some())),
        _ => no_such_overload(),
    }
}

fn url_part<'a>(args: &Arguments<'a, '_>, part: impl Fn(&Url) -> String) -> EvalResult<'a> {
    match &args.values[..] {
        [Value::Url(url)] => Ok(Value::text(part(url))),
        _ => no_such_overload(),
    }
}

pub(in super::super) fn scheme<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    url_part(&args, |url| url.scheme.clone())
}

pub(in super::super) fn host<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    url_part(&args, |url| url.host.clone())
}

pub(in super::super) fn hostname<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    url_part(&args, |url| url.hostname().to_owned())
}

pub(in super::super) fn port<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    url_part(&args, |url| url.port().to_owned())
}

pub(in super::super) fn escaped_path<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    url_part(&args, Url::escaped_path)
}

pub(in super::super) fn query<'a>(args: Arguments<'a, '_>) -> EvalResult<'a> {
    let [Value::Url(url)] = &args.values[..] else { return no_such_overload() };
    let entries: BTreeMap<CelMapKey, Value<'a>> = url
        .query_parameters()
        .into_iter()
        .map(|(name, values)| {
            (CelMapKey::String(name.into()), Value::list(values.into_iter().map(Value::text).collect()))
        })
        .collect();
    Ok(Value::Map(Map::Built(Rc::new(entries))))
}
