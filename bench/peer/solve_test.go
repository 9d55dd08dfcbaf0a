package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const sampleFile = "testdata/sample.json"

func sample(t *testing.T) *workload {
	t.Helper()
	w, _, err := readWorkload(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func solved(t *testing.T, w *workload, parallelism int, limit time.Duration) (run, *plan) {
	t.Helper()
	built, err := newWorld(w)
	if err != nil {
		t.Fatal(err)
	}
	done, answer, err := built.solve(parallelism, limit, func() { panic("overdue") })
	if err != nil {
		t.Fatal(err)
	}
	return done, answer
}

// zoneOf is where a placement ends up; a claim of the sample has one zone wherever a rule needs one.
func zoneOf(answer *plan, place placement) string {
	if place.Claim == nil {
		return "zone-a"
	}
	for _, requirement := range answer.Claims[*place.Claim].Requirements {
		if requirement.Key == corev1.LabelTopologyZone {
			return strings.Join(requirement.Values, ",")
		}
	}
	return ""
}

func placesOf(answer *plan, prefix string) []placement {
	var places []placement
	for _, place := range answer.Placements {
		if strings.HasPrefix(place.Pod, prefix) {
			places = append(places, place)
		}
	}
	return places
}

func TestEveryPodOfTheSampleIsPlacedByTheRules(t *testing.T) {
	for _, parallelism := range []int{1, 5} {
		_, answer := solved(t, sample(t), parallelism, time.Minute)
		if len(answer.Placements) != 30 || len(answer.Unplaced) != 0 {
			t.Fatalf("placed %d, unplaced %v", len(answer.Placements), answer.Unplaced)
		}
		// Two pods of the same label are bound in this zone.
		webs := map[string]int{"zone-a": 2}
		for _, place := range placesOf(answer, "shop/web-") {
			webs[zoneOf(answer, place)]++
		}
		if len(webs) != 3 || max(webs["zone-a"], webs["zone-b"], webs["zone-c"]) > 4 {
			t.Errorf("webs are spread like %v", webs)
		}
		caches := map[string]bool{}
		for _, place := range placesOf(answer, "shop/cache-") {
			caches[zoneOf(answer, place)] = true
		}
		if len(caches) != 1 {
			t.Errorf("caches are in %v", caches)
		}
		stores := map[string]bool{}
		for _, place := range placesOf(answer, "shop/store-") {
			stores[place.target()] = true
		}
		if len(stores) != 5 {
			t.Errorf("stores are on %v", stores)
		}
	}
}

func (p placement) target() string {
	text, _ := json.Marshal(placement{Node: p.Node, Claim: p.Claim})
	return string(text)
}

func TestClaimsSayWhatToBuyAndForWhom(t *testing.T) {
	w := sample(t)
	_, answer := solved(t, w, 1, time.Minute)
	placed := make([][]string, len(answer.Claims))
	for _, place := range answer.Placements {
		if (place.Node == "") == (place.Claim == nil) {
			t.Fatalf("%s has not one target", place.Pod)
		}
		if place.Claim != nil {
			placed[*place.Claim] = append(placed[*place.Claim], place.Pod)
		}
	}
	for index, claim := range answer.Claims {
		if !slices.Equal(claim.Pods, placed[index]) {
			t.Errorf("claim %d lists %v and gets %v", index, claim.Pods, placed[index])
		}
		if !slices.IsSortedFunc(claim.Requirements, func(a, b requirementEntry) int { return strings.Compare(a.Key, b.Key) }) {
			t.Errorf("claim %d has requirements out of order: %v", index, claim.Requirements)
		}
		if claim.Labels["team"] != claim.Pool {
			t.Errorf("claim %d of %s has labels %v", index, claim.Pool, claim.Labels)
		}
		checkCheapestFirst(t, w, claim)
	}
	for _, place := range placesOf(answer, "default/batch-") {
		claim := answer.Claims[*place.Claim]
		if claim.Pool != "batch" || !strings.HasPrefix(claim.Types[0], "compact-") {
			t.Errorf("%s is on %s of %v", place.Pod, claim.Pool, claim.Types)
		}
		// Four pods of two cores, and the daemon.
		if claim.Requests.Cpu().Cmp(resource.MustParse("8100m")) != 0 {
			t.Errorf("claim asks for %v", claim.Requests)
		}
	}
}

func checkCheapestFirst(t *testing.T, w *workload, claim claimEntry) {
	t.Helper()
	catalog, err := catalogFor(w)
	if err != nil {
		t.Fatal(err)
	}
	isOnDemandOut := claim.Pool == "batch"
	last := 0.0
	for _, name := range claim.Types {
		for _, known := range catalog[claim.Pool] {
			if known.Name != name {
				continue
			}
			cheapest := 1e9
			for _, offering := range known.Offerings.Available() {
				isOut := isOnDemandOut && offering.CapacityType() == "on-demand"
				if !isOut && strings.Contains(zonesOf(claim), offering.Zone()) {
					cheapest = min(cheapest, offering.Price)
				}
			}
			if cheapest < last {
				t.Errorf("%s costs %v and comes after %v", name, cheapest, last)
			}
			last = cheapest
		}
	}
}

func zonesOf(claim claimEntry) string {
	for _, requirement := range claim.Requirements {
		if requirement.Key == corev1.LabelTopologyZone {
			return strings.Join(requirement.Values, ",")
		}
	}
	return "zone-a,zone-b,zone-c"
}

func TestAPodThatWaitsForAnotherComesAfterIt(t *testing.T) {
	w := sample(t)
	// Larger pods are tried first, so this one goes back to the end of the queue until the jobs are seated.
	follower := w.PodTemplates[6].DeepCopy()
	follower.Spec.Tolerations, follower.Spec.NodeSelector = nil, nil
	follower.Labels = map[string]string{"app": "follower"}
	follower.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"index": "6"}},
			TopologyKey:   corev1.LabelHostname,
		}},
	}}
	w.PodTemplates = append(w.PodTemplates, follower)
	w.Pods = append(w.Pods, podEntry{Template: 7, Name: "follower", Namespace: "default", UID: "follower"})
	_, answer := solved(t, w, 1, time.Minute)
	turn := func(name string) int {
		return slices.IndexFunc(answer.Placements, func(place placement) bool { return place.Pod == name })
	}
	if turn("default/job-6") < 0 || turn("default/follower") < turn("default/job-6") {
		t.Errorf("job-6 has turn %d, its follower %d", turn("default/job-6"), turn("default/follower"))
	}
}

func TestAPodThatFitsNowhereHasAnError(t *testing.T) {
	w := sample(t)
	giant := w.PodTemplates[5].DeepCopy()
	giant.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("99")
	w.PodTemplates = append(w.PodTemplates, giant)
	w.Pods = append(w.Pods, podEntry{Template: 7, Name: "giant", Namespace: "default", UID: "giant"})
	_, answer := solved(t, w, 1, time.Minute)
	if len(answer.Placements) != 30 || len(answer.Unplaced) != 1 {
		t.Fatalf("placed %d, unplaced %v", len(answer.Placements), answer.Unplaced)
	}
	if left := answer.Unplaced[0]; left.Pod != "default/giant" || !strings.Contains(left.Error, "resources") {
		t.Errorf("left is %v", left)
	}
}

func TestARunThatIsOutOfTimeSaysSo(t *testing.T) {
	done, answer := solved(t, sample(t), 1, time.Nanosecond)
	if !done.IsCapped || len(answer.Placements) != 0 || len(answer.Unplaced) != 30 {
		t.Fatalf("capped %t, placed %d, unplaced %d", done.IsCapped, len(answer.Placements), len(answer.Unplaced))
	}
	if answer.Unplaced[0].Error != "time ran out" {
		t.Errorf("the error is %q", answer.Unplaced[0].Error)
	}
}

func TestRunsLeaveTheWorldAsItWas(t *testing.T) {
	w := sample(t)
	// The reference adds to the selectors of such pods while it looks at them.
	w.PodTemplates[2].Spec.TopologySpreadConstraints[0].MatchLabelKeys = []string{"app"}
	built, err := newWorld(w)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal([]any{built.pods, w})
	for range 2 {
		if _, answer, err := built.solve(1, time.Minute, func() { panic("overdue") }); err != nil || len(answer.Placements) != 30 {
			t.Fatalf("%v %v", err, answer)
		}
	}
	if after, _ := json.Marshal([]any{built.pods, w}); !bytes.Equal(before, after) {
		t.Error("a run has changed what the next one starts from")
	}
}

func TestTheAnswerHasOneShape(t *testing.T) {
	text, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	wanted := hex.EncodeToString(sum[:])
	for _, parallelism := range []string{"1", "1,2"} {
		path := filepath.Join(t.TempDir(), "answer.json")
		var said bytes.Buffer
		args := []string{"solve", "--workload", sampleFile, "--parallelism", parallelism, "--runs", "2", "--out", path}
		if err := command(args, &said); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(said.String(), "sample sha256 "+wanted+"\n") {
			t.Errorf("it says %q", said.String())
		}
		written, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		checkKeys(t, written, []string{
			"workload", "sha256", "reference", "preferencePolicy", "minValuesPolicy", "pods", "loadSeconds",
			"lowerSeconds", "capSeconds", "parallelism", "capped", "seconds", "peakMB", "runs", "plan",
		})
		var answer report
		if err := json.Unmarshal(written, &answer); err != nil {
			t.Fatal(err)
		}
		if answer.SHA256 != wanted || len(answer.Seconds) != 2 || len(answer.Plan.Placements) != 30 || answer.IsCapped {
			t.Errorf("it writes %s", written)
		}
		if wantedRuns := 1 + len(strings.Split(parallelism, ",")); len(answer.Runs) != wantedRuns {
			t.Errorf("it made %d runs, not %d", len(answer.Runs), wantedRuns)
		}
	}
}

// checkKeys holds the keys of an object, in the order in which they are written, against those that a reader expects.
func checkKeys(t *testing.T, object []byte, wanted []string) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(keys, wanted) {
		t.Errorf("keys are %v", keys)
	}
}

func TestAReservationIsNamedInTheClaimThatUsesIt(t *testing.T) {
	const label = "bench.dovetail.dev/reservation-id"
	w := sample(t)
	w.ReservationIDLabel = label
	w.Pools[0].Spec.Template.Spec.Requirements[0].Values = []string{"on-demand", "reserved", "spot"}
	for index := range w.Types {
		entry := &w.Types[index]
		for at := range entry.Requirements {
			if entry.Requirements[at].Key == "karpenter.sh/capacity-type" {
				entry.Requirements[at].Values = append(entry.Requirements[at].Values, "reserved")
			}
		}
		entry.Requirements = append(entry.Requirements, requirementEntry{Key: label, Operator: "In", Values: []string{entry.Name}})
		entry.Offerings = append(entry.Offerings, offeringEntry{
			Zone: "zone-a", CapacityType: "reserved", Price: "0.0000001", Available: true,
			ReservationID: entry.Name, ReservationCapacity: 1,
		})
	}
	_, answer := solved(t, w, 1, time.Minute)
	users := 0
	for _, claim := range answer.Claims {
		if slices.ContainsFunc(claim.Requirements, func(entry requirementEntry) bool { return entry.Key == label }) {
			users++
		}
	}
	if users == 0 {
		t.Errorf("no claim uses a reservation: %v", answer.Claims)
	}
}
