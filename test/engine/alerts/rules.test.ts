import { keeper } from "millrace/worker";
import { describe, expect, it } from "vitest";
import { type AlertChanges, changedRules } from "../../../packages/millrace/src/alerts/rule.ts";
import {
  ALERT_RULES,
  INSTANCES_ERRORED,
  KEEPER_LATE,
  LETTERS_ARRIVED,
  LETTERS_ESCALATED,
  WORKFLOWS_TRIPPED,
} from "../../../packages/millrace/src/alerts/rules.ts";
import { GAUGES } from "../../../packages/millrace/src/observe/metrics/series.ts";

const ruleOf = (name: string, rules = ALERT_RULES) => rules.find((rule) => rule.name === name);

describe("Alert rules", () => {
  it("the alert rules have the documented bounds", () => {
    const bounds = Object.fromEntries(ALERT_RULES.map(({ name, warning, critical }) => [name, [warning?.above, critical?.above]]));
    expect(bounds).toMatchObject({
      dlq_depth: [0, 100],
      queue_depth: [10_000, 100_000],
      processing_p99: [10, 60],
      retry_ratio: [0.05, 0.2],
      backlog_age: [2 * 86_400, 3 * 86_400],
    });
  });

  it("each alert rule reads an existing gauge, and filters by labels that this gauge has", () => {
    const own = { [LETTERS_ARRIVED]: ["queue", "reason"], [INSTANCES_ERRORED]: ["workflow", "code"], [KEEPER_LATE]: [] };
    const others = {
      projection_lag_seconds: ["projection"],
      object_bytes: ["binding"],
      [LETTERS_ESCALATED]: ["dead_letter", "queue", "reason"],
      [WORKFLOWS_TRIPPED]: ["workflow"],
    };
    const engine = Object.entries(GAUGES).map(([name, { labels }]) => [name, labels]);
    const labelsOf: Record<string, readonly string[]> = { ...Object.fromEntries(engine), ...own, ...others };
    const astray = ALERT_RULES.filter(({ gauge, per }) => !per.every((label) => labelsOf[gauge]?.includes(label)) || !labelsOf[gauge]);
    expect(astray.map(({ name }) => name)).toEqual([]);
  });

  it("alert rules that a deployment lists without changes keep all their values", () => {
    const all = Object.fromEntries(ALERT_RULES.map(({ name }) => [name, {}]));
    expect(changedRules(ALERT_RULES, all)).toEqual(ALERT_RULES);
    expect(Object.keys(all)).toHaveLength(ALERT_RULES.length);
  });

  it("an option of the deployment can change a rule's bound and time, remove a threshold, and disable a rule", () => {
    const rules = changedRules(ALERT_RULES, {
      queue_depth: { warning: { above: 5, forMs: 0 }, repeatMs: 60_000, clearMs: 0 },
      dlq_depth: { critical: null },
      keeper_late: false,
    });
    expect(ruleOf("queue_depth", [...rules])).toMatchObject({
      ...{ warning: { above: 5, forMs: 0 }, critical: { above: 100_000 }, repeatMs: 60_000, clearMs: 0 },
    });
    expect(ruleOf("dlq_depth", [...rules])).not.toHaveProperty("critical");
    expect(ruleOf("keeper_late", [...rules])).toBeUndefined();
    expect(rules).toHaveLength(ALERT_RULES.length - 1);
  });

  it.each([
    [{ queue_deep: {} }, 'There is no alert "queue_deep". Did you mean "queue_depth"?'],
    [{ queue_depth: { warn: { above: 1, forMs: 1 } } }, 'alerts.queue_depth has "warn": it takes warning, critical, repeatMs, clearMs'],
    [{ queue_depth: { warning: { above: Number.NaN, forMs: 0 } } }, "alerts.queue_depth.warning.above is NaN: set a number."],
    [{ queue_depth: { warning: { above: 1, forMs: -1 } } }, "alerts.queue_depth.warning.forMs is -1"],
    [{ queue_depth: { critical: { above: 10_000, forMs: 0 } } }, "set more than the warning's 10000"],
    [{ effects_in_doubt: { warning: null } }, "no threshold left: keep one, or set `effects_in_doubt: false`"],
    [{ queue_depth: { repeatMs: 1000 } }, "alerts.queue_depth.repeatMs is 1000: set 60000 or more."],
    [{ queue_depth: null }, "alerts.queue_depth is null: set {"],
    [{ queue_depth: true }, "alerts.queue_depth is true: set {"],
    [{ queue_depth: { warning: [] } }, "alerts.queue_depth.warning is []: set { above, forMs }"],
    [{ queue_depth: { warning: { above: 1, forMs: 0, for: "1m" } } }, 'alerts.queue_depth.warning has "for": it takes above, forMs'],
    [{ retry_ratio: { warning: { above: 5, forMs: 0 } } }, "its gauge is at most 1. Set a lower bound."],
    [{ queue_depth: { clearMs: Number.POSITIVE_INFINITY } }, "alerts.queue_depth.clearMs is Infinity"],
  ])("alert rules with the value %j stop the start of the Worker, and the error names the value to change", (alerts, said) => {
    expect(() => keeper({ alerts: alerts as AlertChanges })).toThrow(expect.objectContaining({ code: "config_invalid" }));
    expect(() => keeper({ alerts: alerts as AlertChanges })).toThrow(said);
  });
});
