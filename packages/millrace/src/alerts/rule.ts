import { MillraceError } from "../contract/errors.ts";
import { nearest } from "../contract/nearest.ts";

/** A bound of an alert rule, and the time for which the bound must be exceeded without interruption. */
export interface Threshold {
  /** The bound of a gauge. Only a greater value exceeds the bound, and not an equal value. */
  readonly above: number;
  /** For how many milliseconds the bound must be exceeded. With 0 the alert fires at the first evaluation. */
  readonly forMs: number;
}

/** A rule that decides when a gauge raises alerts. */
export interface AlertRule {
  readonly name: string;
  readonly gauge: string;
  /** The labels by which samples are grouped. Each group of samples with equal labels has its own alert. */
  readonly per: readonly string[];
  /** How the samples of one group are combined. Default `sum`; `max` suits ages and shares. */
  readonly across?: "sum" | "max";
  readonly warning?: Threshold;
  readonly critical?: Threshold;
  /** Milliseconds between two notices of a continuing alert. */
  readonly repeatMs: number;
  /** Milliseconds for which a bound must not be exceeded before the alert is resolved or becomes a warning again. */
  readonly clearMs: number;
  /** The gauge's highest possible value; absent if the gauge has no upper limit. */
  readonly most?: number;
  /** The meaning of the alert, in one sentence. */
  readonly meaning: string;
  /** The documentation page and its heading. */
  readonly doc: string;
}

/** A deployment's change of one rule. `null` removes a threshold. */
export interface RuleChange {
  readonly warning?: Threshold | null;
  readonly critical?: Threshold | null;
  readonly repeatMs?: number;
  readonly clearMs?: number;
}

/** A deployment's changes of rules, by name; `false` switches a rule off. */
export type AlertChanges = Readonly<Record<string, RuleChange | false>>;

/**
 * The rules with a deployment's changes. Errors: `config_invalid`, with the necessary change, for an unknown rule, a bound that is no
 * number, and a critical bound that is not above the warning's.
 */
export function changedRules(rules: readonly AlertRule[], changes: AlertChanges = {}): readonly AlertRule[] {
  const names = rules.map(({ name }) => name);
  for (const [name, change] of Object.entries(changes)) {
    if (!names.includes(name)) throw invalid(`There is no alert "${name}".${hint(name, names)}`);
    if (change === false) continue;
    if (!isRecord(change)) throw invalid(`alerts.${name} is ${JSON.stringify(change)}: set { ${FIELDS.join(", ")} }, or false.`);
    assertFields(`alerts.${name}`, change, FIELDS, ", or false");
    for (const severity of ["warning", "critical"] as const) {
      const threshold: unknown = change[severity];
      if (threshold === undefined || threshold === null) continue;
      if (!isRecord(threshold)) throw invalid(`alerts.${name}.${severity} is ${JSON.stringify(threshold)}: set { above, forMs }, or null.`);
      assertFields(`alerts.${name}.${severity}`, threshold, ["above", "forMs"], ", or null");
    }
  }
  return rules.flatMap((rule) => {
    const change = changes[rule.name];
    if (change === false) return [];
    return [change === undefined ? rule : checked(merged(rule, change))];
  });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function assertFields(where: string, value: object, fields: readonly string[], or: string): void {
  const unknown = Object.keys(value).find((field) => !fields.includes(field));
  if (unknown !== undefined) throw invalid(`${where} has "${unknown}": it takes ${fields.join(", ")}${or}.`);
}

const FIELDS = ["warning", "critical", "repeatMs", "clearMs"];

/** With an interval shorter than a round of the keeper, every round would send a notice. */
const LEAST_REPEAT_MS = 60_000;

function merged(rule: AlertRule, { warning = rule.warning, critical = rule.critical, ...times }: RuleChange): AlertRule {
  const { warning: _, critical: __, ...rest } = rule;
  return { ...rest, ...times, ...(warning && { warning }), ...(critical && { critical }) };
}

function checked(rule: AlertRule): AlertRule {
  const { name, warning, critical, repeatMs, clearMs } = rule;
  for (const [severity, threshold] of Object.entries({ warning, critical })) {
    if (threshold === undefined) continue;
    if (!Number.isFinite(threshold.above)) throw invalid(`alerts.${name}.${severity}.above is ${threshold.above}: set a number.`);
    if (threshold.above >= (rule.most ?? Number.POSITIVE_INFINITY))
      throw invalid(`alerts.${name}.${severity}.above is ${threshold.above}, and its gauge is at most ${rule.most}. Set a lower bound.`);
    if (!isTime(threshold.forMs)) throw invalid(`alerts.${name}.${severity}.forMs is ${threshold.forMs}: set milliseconds, 0 or more.`);
  }
  if (!warning && !critical) throw invalid(`alerts.${name} has no threshold left: keep one, or set \`${name}: false\`.`);
  if (warning && critical && critical.above <= warning.above) {
    throw invalid(`alerts.${name}.critical.above is ${critical.above}: set more than the warning's ${warning.above}.`);
  }
  if (!isTime(repeatMs) || repeatMs < LEAST_REPEAT_MS)
    throw invalid(`alerts.${name}.repeatMs is ${repeatMs}: set ${LEAST_REPEAT_MS} or more.`);
  if (!isTime(clearMs)) throw invalid(`alerts.${name}.clearMs is ${clearMs}: set milliseconds, 0 or more.`);
  return rule;
}

function isTime(ms: number): boolean {
  return Number.isFinite(ms) && ms >= 0;
}

function hint(name: string, names: readonly string[]): string {
  const guess = nearest(name, names);
  return guess ? ` Did you mean "${guess}"?` : ` There are: ${names.join(", ")}.`;
}

function invalid(message: string): MillraceError {
  return new MillraceError("config_invalid", message);
}
