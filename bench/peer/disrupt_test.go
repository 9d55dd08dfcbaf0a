package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/disruption"
)

// standingCluster is the sample with only its first pool, which buys one type on demand, and so many nodes with so many
// pods each. Seven pods fill a node.
func standingCluster(t *testing.T, nodes, pods int) *workload {
	t.Helper()
	w := sample(t)
	w.Name = "standing"
	w.Pools, w.DaemonSets, w.Pods = w.Pools[:1], nil, nil
	w.Pools[0].Spec.Template.Spec.Requirements[0].Values = []string{"on-demand"}
	w.Pools[0].Spec.Disruption.Budgets = []v1.Budget{{Nodes: "100%"}}
	w.PoolTypes = map[string][]string{w.Pools[0].Name: {"general-4"}}
	claim, node := w.NodeClaims[0], w.Nodes[0]
	w.NodeClaims, w.Nodes, w.BoundPods = nil, nil, nil
	for number := range nodes {
		id := fmt.Sprintf("bench:///zone-a/%d", number)
		itsClaim, itsNode := claim.DeepCopy(), node.DeepCopy()
		itsClaim.Name, itsNode.Name = fmt.Sprintf("shared-%d", number), fmt.Sprintf("node-%d", number)
		itsClaim.Status.ProviderID, itsNode.Spec.ProviderID = id, id
		itsClaim.Status.NodeName = itsNode.Name
		itsNode.Labels[corev1.LabelHostname] = itsNode.Name
		itsClaim.StatusConditions().SetTrue(v1.ConditionTypeConsolidatable)
		w.NodeClaims, w.Nodes = append(w.NodeClaims, itsClaim), append(w.Nodes, itsNode)
		for pod := range pods {
			name := fmt.Sprintf("web-%d-%d", number, pod)
			w.BoundPods = append(w.BoundPods, podEntry{
				Template: 1, Name: name, Namespace: "shop", UID: types.UID(name), Node: itsNode.Name,
			})
		}
	}
	return w
}

func disrupted(t *testing.T, w *workload) *disruptReport {
	t.Helper()
	built, err := newWorld(w)
	if err != nil {
		t.Fatal(err)
	}
	methods, err := built.disrupt()
	if err != nil {
		t.Fatal(err)
	}
	r := &disruptReport{}
	r.take(methods)
	return r
}

func TestFullNodesAreAllLookedAtAndStay(t *testing.T) {
	r := disrupted(t, standingCluster(t, 5, 7))
	if r.Candidates != 5 || r.Evaluated != 5 || r.Commands != 0 || r.Seconds != r.SecondsRaw {
		t.Errorf("the report is %+v", r)
	}
	names := ""
	for _, run := range r.Methods {
		names += run.Method + " "
		if run.Method == multi && (run.Candidates != 5 || run.Simulations == 0) {
			t.Errorf("many at once: %+v", run)
		}
	}
	if names != "emptiness static-drift drift multi-node single-node " {
		t.Errorf("the methods are %s", names)
	}
}

func TestMovesThatTheReferenceFindsAreReported(t *testing.T) {
	r := disrupted(t, standingCluster(t, 4, 1))
	if r.Commands == 0 {
		t.Errorf("the report is %+v", r)
	}
	empty := disrupted(t, standingCluster(t, 2, 0))
	if empty.Commands == 0 || len(empty.Methods[0].Commands) == 0 || empty.Candidates != 0 {
		t.Errorf("of empty nodes the report is %+v", empty)
	}
}

func TestTimeIsScaledToAllCandidates(t *testing.T) {
	r := &disruptReport{}
	r.take([]methodRun{
		{Method: "drift", GatherSeconds: 1},
		{Method: multi, Candidates: 100, GatherSeconds: 1, DecideSeconds: 60, Simulations: 3, IsTimedOut: true},
		{Method: single, Candidates: 100, GatherSeconds: 1, DecideSeconds: 180, Simulations: 25, IsTimedOut: true},
	})
	if r.SecondsRaw != 243 || r.Seconds != 63+720 || r.Candidates != 100 || r.Evaluated != 25 {
		t.Errorf("the report is %+v", r)
	}
}

func TestALoopThatDidNotLookIsNotCountedAsOneThatDid(t *testing.T) {
	before := disruption.SingleNodeConsolidationTimeoutDuration
	disruption.SingleNodeConsolidationTimeoutDuration = -time.Second
	defer func() { disruption.SingleNodeConsolidationTimeoutDuration = before }()
	built, err := newWorld(standingCluster(t, 3, 7))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := built.disrupt(); err == nil || !strings.Contains(err.Error(), "gave up before its first") {
		t.Errorf("the complaint is %v", err)
	}
	notes := &notebook{evaluated: 4}
	if err := notes.check(methodRun{Simulations: 3}); err == nil {
		t.Error("two counts that differ are taken")
	}
	notes.Error(os.ErrNotExist, "simulating")
	if err := notes.complaint(); err == nil {
		t.Error("an error that was only logged is lost")
	}
}

func TestTheDisruptionAnswerHasOneShape(t *testing.T) {
	text, err := json.Marshal(standingCluster(t, 3, 7))
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	file, answer := filepath.Join(folder, "file.json"), filepath.Join(folder, "answer.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	if err := command([]string{"disrupt", "--workload", file, "--out", answer}, &said); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(answer)
	if err != nil {
		t.Fatal(err)
	}
	checkKeys(t, written, []string{
		"workload", "sha256", "reference", "nodes", "pods", "loadSeconds", "lowerSeconds", "secondsRaw", "seconds",
		"candidates", "evaluated", "commands", "methods",
	})
	var r disruptReport
	if err := json.Unmarshal(written, &r); err != nil || !strings.HasPrefix(said.String(), "standing sha256 "+r.SHA256+"\n") {
		t.Errorf("it says %q, %v", said.String(), err)
	}
	if err := command([]string{"disrupt", "--workload", sampleFile, "--out", answer}, &said); err == nil {
		t.Error("a file in which pods wait is taken")
	}
}
