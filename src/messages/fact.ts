import { errors, type Issue, ids, MillraceError, type TraceContext, texts, traces } from "millrace";
import * as z from "zod";

/** The schema of the names that a sender gives to accounts, partners, contacts and entities. */
const name = texts.chosenName(200);
/**
 * The schema of the names of accounts and partners. The maximum length leaves room for the prefix in the names of ledgers, `account/…` and
 * `partner/…`.
 */
const party = texts.chosenName(190);
const cents = z.int().min(0).max(1_000_000_000_000);
const ruleRef = z.strictObject({ version: z.int().min(1), rule: z.string() });
const webhook = z.strictObject({ endpoint_id: z.string(), delivery_id: z.string(), fact_id: name });

/**
 * Maximum length of a fact's payload as JSON, if the type allows additional fields. The limit ensures that a fact always fits into its
 * message.
 */
const MAX_OPEN_CHARACTERS = 8000;
const open = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z
    .looseObject(shape)
    .refine(
      (payload) => texts.characterCount(JSON.stringify(payload)) <= MAX_OPEN_CHARACTERS,
      `must not exceed ${MAX_OPEN_CHARACTERS} characters as JSON: store the rest and send its location`,
    );

/** The payload of each type of fact. A fact with an invalid payload is refused before the ledger appends the fact. */
export const FACT_PAYLOADS = {
  /** An outcome of monetary value, with the account that owes the value and the partner that earned it. */
  outcome: open({ account: party, partner: party.optional(), contact: name.optional(), value_cents: cents, hold: name.optional() }),
  /** The fact that an amount was charged to an account. `hold` is the budget reservation that the charge settles. */
  charge: z.strictObject({
    account: party,
    amount_cents: cents,
    outcome_id: name.optional(),
    decided_by: ruleRef.optional(),
    hold: name.optional(),
  }),
  /** The fact that an amount was paid to a partner. */
  payout: z.strictObject({ partner: party, amount_cents: cents, outcome_id: name.optional(), decided_by: ruleRef.optional() }),
  /** The fact that two contacts are one person: `from` becomes an alias of `into`. */
  contact_merged: z.strictObject({ from: name, into: name }),
  webhook_triggered: webhook,
  webhook_sent: webhook.extend({ status: z.int(), attempts: z.int() }),
  webhook_failed: webhook.extend({ status: z.int().nullable(), reason: z.string().max(1000) }),
  /** The fact that two sources were compared, or that a person settled a difference manually. */
  reconciliation: open({ about: name, note: z.string().max(1000).optional() }),
} as const;

export type FactType = keyof typeof FACT_PAYLOADS;
export const FACT_TYPES = Object.keys(FACT_PAYLOADS) as [FactType, ...FactType[]];
export type FactPayload<Type extends FactType> = z.infer<(typeof FACT_PAYLOADS)[Type]>;

const head = { fact_id: name, entity: name, subtype: z.string().min(1).max(100).optional(), occurred_at: z.iso.datetime() };
/**
 * A fact's identity depends on the fact's time, and the time is stored in milliseconds. Old ledgers contain times that are finer than
 * milliseconds.
 */
const statedTime = z.iso
  .datetime()
  .refine((time) => !/\.\d{3}\d*[1-9]/.test(time), "is finer than milliseconds: send at most three decimal digits");
const provenance = {
  tenant_id: z.string(),
  trace_id: z.string().length(32),
  traceparent: z.string().optional(),
  tracestate: z.string().optional(),
  correlation_id: z.string(),
  causation_id: z.string(),
};
const place = {
  sequence: z.int().min(1),
  recorded_at: z.iso.datetime(),
  derived: z.object({ charge: z.string(), payout: z.string() }).optional(),
};

/** A fact in the form in which a sender states the fact. */
export type StatedFact<Type extends FactType = FactType> = {
  [One in Type]: {
    /** The sender's name for the fact. Facts with the same name in the same ledger are one fact. */
    fact_id: string;
    /** The entity of the fact's ledger, such as `account/a1`. */
    entity: string;
    type: One;
    subtype?: string | undefined;
    /** The time of the event that the fact describes, according to the sender. */
    occurred_at: string;
    payload: FactPayload<One>;
  };
}[Type];

/** The origin of a recorded fact: its trace, its job and its cause. */
export interface Provenance {
  tenant_id: string;
  /** The trace id of the fact's W3C trace: 32 hex characters. */
  trace_id: string;
  /** The trace context of the sender: the sender's span, its flags and its state. Facts of earlier deployments have only the trace id. */
  traceparent?: string | undefined;
  tracestate?: string | undefined;
  correlation_id: string;
  /** The id of the fact's cause: a request, another fact, or a message. */
  causation_id: string;
}

/** Returns the trace fields of a fact. */
export function traceFields(trace: TraceContext): Pick<Provenance, "trace_id" | "traceparent" | "tracestate"> {
  return { trace_id: traces.idOf(trace.traceparent), ...trace };
}

/** A fact in the form in which a ledger has recorded the fact. */
export type RecordedFact<Type extends FactType = FactType> = StatedFact<Type> &
  Provenance & {
    /** The fact's position in its ledger, from 1. */
    sequence: number;
    /** The time at which the ledger recorded the fact, by the ledger's clock. */
    recorded_at: string;
    /**
     * The names of the charge and the payout that were derived from the fact. This field exists only if the fact's own name was replaced
     * afterwards.
     */
    derived?: { charge: string; payout: string } | undefined;
  };

/** Returns the names of the facts that are derived from an outcome. The same outcome always gives the same names. */
export function derivedNames({ entity, fact_id }: Pick<StatedFact, "entity" | "fact_id">): { charge: string; payout: string } {
  const named = (type: "charge" | "payout") => `${type}-${ids.digest(type, entity, fact_id)}`;
  return { charge: named("charge"), payout: named("payout") };
}

function stated<Type extends FactType>(type: Type) {
  return z.strictObject({ ...head, occurred_at: statedTime, type: z.literal(type), payload: FACT_PAYLOADS[type] });
}

/** The schema of a recorded fact of one type, as messages contain it. */
export function recorded<Type extends FactType>(type: Type) {
  const schema = z.object({ ...head, ...provenance, ...place, type: z.literal(type), payload: FACT_PAYLOADS[type] });
  return schema as unknown as z.ZodType<RecordedFact<Type>>;
}

/** The schema of any fact that a sender states. */
export const statedFactSchema = oneOf(stated) as unknown as z.ZodType<StatedFact>;
/** The schema of any fact that a ledger has recorded. */
export const recordedFactSchema = oneOf(recorded) as unknown as z.ZodType<RecordedFact>;

function oneOf(schemaOf: (type: FactType) => z.ZodType) {
  return z.discriminatedUnion("type", FACT_TYPES.map(schemaOf) as unknown as [z.ZodObject, ...z.ZodObject[]]);
}

/** The ledgers to which only Millrace appends. Without this rule, another sender could record a webhook delivery that did not happen. */
const KEPT_BY_MILLRACE = ["webhook/", "batch/", "queue/"];

export function isKeptByMillrace(entity: string): boolean {
  return KEPT_BY_MILLRACE.some((prefix) => entity.startsWith(prefix));
}

/** Creates the error for a fact that another sender states for a ledger that only Millrace appends to. */
export function keptByMillrace(path: string): MillraceError {
  const kept = KEPT_BY_MILLRACE.map((prefix) => `${prefix}…`).join(", ");
  return invalidFact([{ path, message: `must be another ledger: only Millrace appends to ${kept}` }]);
}

/**
 * Validates a fact that a sender states. Errors: `invalid_payload` with the issues, also for a fact that is too large for a message. If the
 * type is unknown, the error contains the known types and the most similar type.
 */
export function readFact(value: unknown, path = "fact", { nul = true } = {}): StatedFact {
  // If the value was invalid JSON, the caller has already replaced the value by an error.
  if (value instanceof MillraceError) throw value;
  // The fact must fit into a message, because messages contain the fact as their payload.
  texts.assertBounded(value, { within: 1, at: path, nul });
  const parsed = statedFactSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const type = typeof value === "object" && value !== null && "type" in value ? value.type : undefined;
  if (typeof type === "string" && !FACT_TYPES.includes(type as FactType)) throw unknownType(type, path);
  throw invalidFact(errors.issuesIn(statedFactSchema, value, parsed.error, [path]));
}

function unknownType(type: string, path: string): MillraceError {
  return invalidFact([{ path: `${path}.type`, message: `must be one of ${FACT_TYPES.join(", ")}` }], texts.nearest(type, FACT_TYPES));
}

function invalidFact(issues: Issue[], didYouMean?: string): MillraceError {
  const guess = didYouMean ? ` Did you mean "${didYouMean}"?` : "";
  return new MillraceError("invalid_payload", `The fact is not valid: ${errors.firstIssue(issues)}.${guess}`, {
    issues,
    ...(didYouMean && { didYouMean }),
  });
}
