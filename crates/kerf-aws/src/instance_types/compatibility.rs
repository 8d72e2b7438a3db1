//! Compatibility of an instance type with the settings of a node class (spec 05 §4.11). A type that
//! is not compatible stays in the list, and none of its offerings is available.

use super::class_facts::NodeClassFacts;
use crate::ports::ec2::InstanceTypeInfo;

/// Returns true if instances of the type can be launched with the settings of the class.
pub(super) fn is_compatible(info: &InstanceTypeInfo, class: &NodeClassFacts) -> bool {
    supports_interfaces(info, class)
        && !(class.is_al2023() && info.name.starts_with("a1."))
        && (!class.needs_nested_virtualization || has_processor_feature(info, "nested-virtualization"))
        && class.group.as_ref().is_none_or(|group| supports_strategy(info, &group.strategy))
        && (!class.needs_enclaves || info.nitro_enclaves_support == "supported")
        && (!class.has_connection_tracking || info.hypervisor == "nitro")
}

fn supports_interfaces(info: &InstanceTypeInfo, class: &NodeClassFacts) -> bool {
    let Some(interfaces) = &class.network_interfaces else {
        return true;
    };
    let cards = &info.network.network_cards;
    let has_position = |card_index: i32, device_index: i32| {
        let card = cards.iter().find(|card| card.network_card_index == card_index);
        usize::try_from(card_index).is_ok_and(|index| index < cards.len())
            && card.is_some_and(|card| card.maximum_network_interfaces > device_index)
    };
    let efa_max = info.network.efa_info.map_or(0, |efa| i64::from(efa.maximum_efa_interfaces));
    !cards.is_empty()
        && info.network.ena_support != "unsupported"
        && interfaces.iter().all(|interface| has_position(interface.network_card_index, interface.device_index))
        && class.efa_only_count() <= efa_max
}

fn supports_strategy(info: &InstanceTypeInfo, strategy: &str) -> bool {
    info.placement.supported_strategies.iter().any(|known| known == strategy)
}

fn has_processor_feature(info: &InstanceTypeInfo, feature: &str) -> bool {
    info.processor.as_ref().is_some_and(|processor| processor.supported_features.iter().any(|known| known == feature))
}
