import {
  assertBounded,
  characterCount,
  chosenName,
  digest,
  firstOf,
  type Issue,
  issuesIn,
  MillraceError,
  nearest,
  type TraceContext,
  traceIdOf,
} from "millrace";
import * as z from "zod";

/** Things in the caller's world: accounts, partners, contacts, entities. */
const name = chosenName(200);
/** Accounts and partners, whose ledgers are `account/…` and `partner/…`: their names leave room for that. */
const party = chosenName(190);
const cents = z.int().min(0).max(1_000_000_000_000);
const ruleRef = z.strictObject({ version: z.int().min(1), rule: z.string() });
const webhook = z.strictObject({ endpoint_id: z.string(), delivery_id: z.string(), fact_id: name });

/** Largest payload whose fields its stater chooses, as JSON: a fact is small, so that it always travels within its message. */
const MAX_OPEN_CHARACTERS = 8000;
const open = <Shape extends z.ZodRawShape>(shape: Shape) =>
  z
    .looseObject(shape)
    .refine(
      (payload) => characterCount(JSON.stringify(payload)) <= MAX_OPEN_CHARACTERS,
      `must not exceed ${MAX_OPEN_CHARACTERS} characters as JSON: store the rest and state where it is`,
    );

/** What each type of fact says. A fact that does not fit its type is refused before it is appended. */
export const FACT_PAYLOADS = {
  /** Something worth money happened: who owes for it, who earned it, what it is worth. */
  outcome: open({ account: party, partner: party.optional(), contact: name.optional(), value_cents: cents, hold: name.optional() }),
  /** An account owes. `hold` names the budget reservation that it settles. */
  charge: z.strictObject({
    account: party,
    amount_cents: cents,
    outcome_id: name.optional(),
    decided_by: ruleRef.optional(),
    hold: name.optional(),
  }),
  /** A partner has earned. */
  payout: z.strictObject({ partner: party, amount_cents: cents, outcome_id: name.optional(), decided_by: ruleRef.optional() }),
  /** Two contacts are one person: from now on `from` is known as `into`. */
  contact_merged: z.strictObject({ from: name, into: name }),
  webhook_triggered: webhook,
  webhook_sent: webhook.extend({ status: z.int(), attempts: z.int() }),
  webhook_failed: webhook.extend({ status: z.int().nullable(), reason: z.string().max(1000) }),
  /** Two accounts of the same thing were compared, or a person settled something by hand. */
  reconciliation: open({ about: name, note: z.string().max(1000).optional() }),
} as const;

export type FactType = keyof typeof FACT_PAYLOADS;
export const FACT_TYPES = Object.keys(FACT_PAYLOADS) as [FactType, ...FactType[]];
export type FactPayload<Type extends FactType> = z.infer<(typeof FACT_PAYLOADS)[Type]>;

const head = { fact_id: name, entity: name, subtype: z.string().min(1).max(100).optional(), occurred_at: z.iso.datetime() };
/** Which fact it is depends on its time, and that is kept in milliseconds. Ledgers hold facts that said more. */
const statedTime = z.iso
  .datetime()
  .refine((time) => !/\.\d{3}\d*[1-9]/.test(time), "says more than milliseconds: send at most three digits of a second");
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

/** A fact as somebody states it. */
export type StatedFact<Type extends FactType = FactType> = {
  [One in Type]: {
    /** Whoever states the fact names it: the same name in the same ledger is the same fact. */
    fact_id: string;
    /** Whose ledger it belongs to, such as `account/a1`. */
    entity: string;
    type: One;
    subtype?: string | undefined;
    /** When it happened, by whoever states it. */
    occurred_at: string;
    payload: FactPayload<One>;
  };
}[Type];

/** Where a ledger fact comes from: the chain it belongs to. */
export interface Provenance {
  tenant_id: string;
  /** 32 hex characters: the W3C trace it belongs to. */
  trace_id: string;
  /** The hop that stated it, with its flags and state; facts of earlier deployments say only the trace. */
  traceparent?: string | undefined;
  tracestate?: string | undefined;
  correlation_id: string;
  /** What caused it: a request, or the fact or message it follows from. */
  causation_id: string;
}

/** The part of it that says which trace a fact belongs to. */
export function traceFields(trace: TraceContext): Pick<Provenance, "trace_id" | "traceparent" | "tracestate"> {
  return { trace_id: traceIdOf(trace.traceparent), ...trace };
}

/** A fact as its ledger holds it. */
export type RecordedFact<Type extends FactType = FactType> = StatedFact<Type> &
  Provenance & {
    /** Its place in its ledger: 1, 2, 3. */
    sequence: number;
    /** When the ledger took it, by the ledger's clock. */
    recorded_at: string;
    /** The names of what follows from it, where its own name is not the one any more that they were made from. */
    derived?: { charge: string; payout: string } | undefined;
  };

/** The names of the facts that follow from an outcome: the same whenever and however often it is decided. */
export function derivedNames({ entity, fact_id }: Pick<StatedFact, "entity" | "fact_id">): { charge: string; payout: string } {
  const named = (type: "charge" | "payout") => `${type}-${digest(type, entity, fact_id)}`;
  return { charge: named("charge"), payout: named("payout") };
}

function stated<Type extends FactType>(type: Type) {
  return z.strictObject({ ...head, occurred_at: statedTime, type: z.literal(type), payload: FACT_PAYLOADS[type] });
}

/** The schema of one type's recorded fact, as messages carry it. */
export function recorded<Type extends FactType>(type: Type) {
  const schema = z.object({ ...head, ...provenance, ...place, type: z.literal(type), payload: FACT_PAYLOADS[type] });
  return schema as unknown as z.ZodType<RecordedFact<Type>>;
}

/** Any fact as somebody states it. */
export const statedFactSchema = oneOf(stated) as unknown as z.ZodType<StatedFact>;
/** Any fact as its ledger holds it. */
export const recordedFactSchema = oneOf(recorded) as unknown as z.ZodType<RecordedFact>;

function oneOf(schemaOf: (type: FactType) => z.ZodType) {
  return z.discriminatedUnion("type", FACT_TYPES.map(schemaOf) as unknown as [z.ZodObject, ...z.ZodObject[]]);
}

/** Ledgers in which Millrace states what it did itself: nobody else may, or a delivery could be made to look as if it had arrived. */
const KEPT_BY_MILLRACE = ["webhook/", "batch/", "queue/"];

export function isKeptByMillrace(entity: string): boolean {
  return KEPT_BY_MILLRACE.some((prefix) => entity.startsWith(prefix));
}

/** The error for a fact that somebody else states there. */
export function keptByMillrace(path: string): MillraceError {
  const kept = KEPT_BY_MILLRACE.map((prefix) => `${prefix}…`).join(", ");
  return invalidFact([{ path, message: `must be a ledger of yours: Millrace keeps ${kept} itself` }]);
}

/**
 * Reads a fact that somebody states. Errors: `invalid_payload` with the issues, also for one that no message could carry; for an unknown
 * type, with the types there are and the nearest.
 */
export function readFact(value: unknown, path = "fact", { nul = true } = {}): StatedFact {
  // What could not be read as JSON of ours is its own error already.
  if (value instanceof MillraceError) throw value;
  // It travels as the payload of its messages.
  assertBounded(value, { within: 1, at: path, nul });
  const parsed = statedFactSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const type = typeof value === "object" && value !== null && "type" in value ? value.type : undefined;
  if (typeof type === "string" && !FACT_TYPES.includes(type as FactType)) throw unknownType(type, path);
  throw invalidFact(issuesIn(statedFactSchema, value, parsed.error, [path]));
}

function unknownType(type: string, path: string): MillraceError {
  return invalidFact([{ path: `${path}.type`, message: `must be one of ${FACT_TYPES.join(", ")}` }], nearest(type, FACT_TYPES));
}

function invalidFact(issues: Issue[], didYouMean?: string): MillraceError {
  const guess = didYouMean ? ` Did you mean "${didYouMean}"?` : "";
  return new MillraceError("invalid_payload", `The fact is not valid: ${firstOf(issues)}.${guess}`, {
    issues,
    ...(didYouMean && { didYouMean }),
  });
}
