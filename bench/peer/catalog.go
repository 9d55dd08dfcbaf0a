package main

import (
	"fmt"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// exactPrice is what both sides can hold without rounding: ours counts in pico-dollars.
var exactPrice = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,12})?$`)

// registerLabels tells the reference which labels the provider answers for. They are process-wide in the reference, as a
// process has one provider.
func registerLabels(w *workload) {
	v1.WellKnownLabels.Insert(w.WellKnownLabels...)
	if w.ReservationIDLabel != "" {
		v1.WellKnownLabels.Insert(w.ReservationIDLabel)
		cloudprovider.ReservationIDLabel = w.ReservationIDLabel
	}
}

// catalogFor gives each pool its types. Pools share the types themselves, which the scheduler only reads.
func catalogFor(w *workload) (map[string][]*cloudprovider.InstanceType, error) {
	all := make([]*cloudprovider.InstanceType, 0, len(w.Types))
	byName := map[string]*cloudprovider.InstanceType{}
	for _, entry := range w.Types {
		built, err := instanceType(entry, w.ReservationIDLabel)
		if err != nil {
			return nil, fmt.Errorf("type %q: %w", entry.Name, err)
		}
		if byName[entry.Name] != nil {
			return nil, fmt.Errorf("type %q is there twice", entry.Name)
		}
		byName[entry.Name] = built
		all = append(all, built)
	}
	catalog := map[string][]*cloudprovider.InstanceType{}
	for _, pool := range w.Pools {
		names, isLimited := w.PoolTypes[pool.Name]
		if !isLimited {
			catalog[pool.Name] = all
			continue
		}
		for _, name := range names {
			if byName[name] == nil {
				return nil, fmt.Errorf("pool %q has type %q, which is not there", pool.Name, name)
			}
			catalog[pool.Name] = append(catalog[pool.Name], byName[name])
		}
	}
	return catalog, nil
}

func instanceType(entry typeEntry, reservationIDLabel string) (*cloudprovider.InstanceType, error) {
	requirements := scheduling.NewRequirements()
	for _, requirement := range entry.Requirements {
		built, err := requirement.build()
		if err != nil {
			return nil, err
		}
		requirements.Add(built)
	}
	if label := requirements.Get(corev1.LabelInstanceTypeStable); label.Len() != 1 || !label.Has(entry.Name) {
		return nil, fmt.Errorf("its requirement on %s is not its name", corev1.LabelInstanceTypeStable)
	}
	built := &cloudprovider.InstanceType{
		Name:         entry.Name,
		Requirements: requirements,
		Capacity:     entry.Capacity,
		Overhead:     &cloudprovider.InstanceTypeOverhead{KubeReserved: entry.Overhead},
	}
	for _, offering := range entry.Offerings {
		sold, err := offering.build(reservationIDLabel)
		if err != nil {
			return nil, err
		}
		built.Offerings = append(built.Offerings, sold)
	}
	return built, nil
}

func (entry requirementEntry) build() (*scheduling.Requirement, error) {
	operator := corev1.NodeSelectorOperator(entry.Operator)
	switch operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(entry.Values) > 0 {
			return nil, fmt.Errorf("requirement on %s: %s takes no values", entry.Key, operator)
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, v1.NodeSelectorOpGte, v1.NodeSelectorOpLte:
		if len(entry.Values) != 1 {
			return nil, fmt.Errorf("requirement on %s: %s takes one value", entry.Key, operator)
		}
		if _, err := strconv.Atoi(entry.Values[0]); err != nil {
			return nil, fmt.Errorf("requirement on %s: %w", entry.Key, err)
		}
	default:
		return nil, fmt.Errorf("requirement on %s: unknown operator %q", entry.Key, operator)
	}
	return scheduling.NewRequirementWithFlexibility(entry.Key, operator, entry.MinValues, entry.Values...), nil
}

func (entry offeringEntry) build(reservationIDLabel string) (*cloudprovider.Offering, error) {
	if !exactPrice.MatchString(entry.Price) {
		return nil, fmt.Errorf("price %q is no decimal with at most twelve places", entry.Price)
	}
	price, err := strconv.ParseFloat(entry.Price, 64)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{
		corev1.LabelTopologyZone: entry.Zone,
		v1.CapacityTypeLabelKey:  entry.CapacityType,
	}
	if (entry.CapacityType == v1.CapacityTypeReserved) != (entry.ReservationID != "") {
		return nil, fmt.Errorf("an offering is reserved exactly when it has a reservation")
	}
	if entry.ReservationID != "" {
		if reservationIDLabel == "" {
			return nil, fmt.Errorf("reservation %q needs a reservationIdLabel in the file", entry.ReservationID)
		}
		labels[reservationIDLabel] = entry.ReservationID
	}
	return &cloudprovider.Offering{
		Requirements:        scheduling.NewLabelRequirements(labels),
		Price:               price,
		Available:           entry.Available,
		ReservationCapacity: entry.ReservationCapacity,
	}, nil
}
