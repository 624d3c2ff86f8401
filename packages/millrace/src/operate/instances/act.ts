import type * as z from "zod";
import { refuseArchived } from "../../archive/read.ts";
import type { EngineEnv } from "../../contract/bindings.ts";
import type { PointAround } from "../../contract/crash-points.ts";
import type { EngineCode } from "../../contract/errors.ts";
import type { Activity } from "../../inspect/activity.ts";
import type { Instance } from "../../inspect/instance-row.ts";
import { getInstance } from "../../inspect/instances.ts";
import { type Action, actionIdOf, NO_CHANGE, type Operator } from "../../store/actions.ts";
import type { Part } from "../../store/d1/named.ts";
import type { Row } from "../../store/d1/retry.ts";
import type { NextRun } from "../../store/instances/run.ts";
import type { InstanceStatus } from "../../store/instances/status.ts";
import type { BulkOptions } from "../../topology/bulk-verb.ts";
import type { Catalog } from "../../topology/catalog.ts";
import type { BulkVerb } from "../../topology/define-bulk-verb.ts";
import { act } from "../act.ts";
import type { ActionPlan } from "./plan.ts";

/** Schemas of the fields of a body or an answer, by name. */
export type Fields = Readonly<Record<string, z.ZodType>>;
/** The values of a request's body. Fields with a default may be absent. */
export type GivenOf<Of extends Fields> = [keyof Of] extends [never] ? unknown : z.input<z.ZodObject<Of>>;
export type AnswerOf<Of extends Fields> = { action_id: string } & MoreOf<Of>;
type MoreOf<Of extends Fields> = [keyof Of] extends [never] ? unknown : z.output<z.ZodObject<Of>>;

export interface Asked<Given> {
  readonly env: EngineEnv;
  readonly by: Operator;
  readonly given: Given;
  /** The catalog, which an act that reads messages requires. */
  readonly catalog?: Catalog | undefined;
  /** The value of the header `Idempotency-Key`, for an act that reads this header. */
  readonly key?: string | undefined;
}

/** The request of an act, with the instance as it was before the act. */
export interface Call<Given> extends Asked<Given> {
  readonly instance: Instance;
}

interface Words<Path extends string, Given extends Fields, Answer extends Fields> {
  /** The name of the act in the audit, which is also the name of the act's bulk action. */
  readonly verb: string;
  /** The path after `/v1/instances/{id}/`, which may have parameters. */
  readonly path: Path;
  /** Default: the name of the act and `Instance`. */
  readonly operationId?: string;
  readonly summary: string;
  readonly description: string;
  /** The reason why the act cannot be undone. Default: it can. */
  readonly final?: string;
  readonly accepted: string;
  /** The fields of the body except `reason` and `dry_run`, and the parameters of `path`. Default: none. */
  readonly body?: Given;
  /** The fields of the answer except `action_id`. Default: none. */
  readonly answer?: Answer;
  /** The meaning of the header `Idempotency-Key` for this act. Default: a request with the header is refused. */
  readonly key?: { readonly says: string; readonly isRequired: boolean };
  /** Error codes of this act in addition to the codes that every act has. */
  readonly problems?: readonly EngineCode[];
  /** The maximum size of the request's body in bytes. Default: the limit of the API. */
  readonly maxBytes?: number;
}

interface OfMany<Given> {
  /** The instance statuses that a filter of the bulk action may name. */
  readonly from: readonly InstanceStatus[];
  /** The status that a filter without a status selects. If this field is omitted, a filter must name a status. */
  readonly usual?: InstanceStatus;
  /** Selects only instances with this activity. */
  readonly activity?: Activity;
  /** The option of the bulk action that the act reads, and the act's body for that option. */
  readonly needs?: keyof BulkOptions;
  readonly given?: (options: BulkOptions) => Given;
  /** True if an instance runs because of the act. Then a later failure of the instance counts as a failure of the bulk action's item. */
  readonly runs?: boolean;
  readonly consequence?: NonNullable<BulkVerb["consequence"]>;
}

/** The request of an act that is carried out. `next` is the instance with the number of its next run. */
export interface Change<Given> extends Call<Given> {
  readonly actionId: string;
  readonly next: Omit<NextRun, "left">;
}

interface Changed<Answer> extends Pick<Action, "detail" | "before" | "after"> {
  /** The statement fences the change in its WHERE clause. The act is refused if it changes no row, and for null. */
  readonly change: Part | null;
  readonly also?: Readonly<Record<string, Part>>;
  /** The instance's status after the act, which the error of a refusal names. Default: the status in `after`. */
  readonly to?: string;
  readonly window?: PointAround;
  readonly isRepeat?: () => Promise<boolean>;
  /** Returns the remaining fields of the answer, after the commit. */
  readonly done?: (answers: Record<string, Row[]>, isApplied: boolean) => Promise<Answer> | Answer;
}

interface Declared<Path extends string, Given extends Fields, Answer extends Fields, Read> extends Words<Path, Given, Answer> {
  /** Reads, once per request, the rows that the functions `refused`, `plan` and `change` need. Default: no rows. */
  readonly read?: (call: Call<GivenOf<Given>>) => Promise<Read>;
  /** Returns the reason for a refusal. After a refused change, it is called again with the present state of the instance. */
  readonly refused: (call: Call<GivenOf<Given>>, read: Read) => Promise<string | null> | string | null;
  readonly plan: (call: Call<GivenOf<Given>>, read: Read) => Promise<Pick<ActionPlan, "consequence"> & Partial<ActionPlan>>;
  readonly change: (call: Change<GivenOf<Given>>, read: Read) => Promise<Changed<MoreOf<Answer>>> | Changed<MoreOf<Answer>>;
  readonly bulk?: OfMany<GivenOf<Given>>;
}

/** An act on one instance. This declaration determines the act's route, dry run, audit row, command and bulk verb. */
export interface InstanceAct<Path extends string = string, Given extends Fields = Fields, Answer extends Fields = Fields>
  extends Words<Path, Given, Answer> {
  readonly bulk?: OfMany<unknown>;
  /** Dry run of the act. Errors: `instance_not_found`, and the errors that the act declares. */
  plan(asked: Asked<GivenOf<Given>>, id: string): Promise<ActionPlan>;
  /** Executes the act. Errors: as `plan`; `invalid_transition`, audited as no change, if the act is refused. */
  act(asked: Asked<GivenOf<Given> & { reason: string }>, id: string): Promise<AnswerOf<Answer>>;
}

type None = Record<never, never>;

export function instanceAct<const Path extends string, Given extends Fields = None, Answer extends Fields = None, Read = undefined>(
  declared: Declared<Path, Given, Answer, Read>,
): InstanceAct<Path, Given, Answer> {
  const { read, refused, plan, change, ...words } = declared;
  const start = async <Body extends GivenOf<Given>>(asked: Asked<Body>, id: string) => {
    const instance = await getInstance(asked.env, asked.by, id).catch((error) => refuseArchived(asked.env, asked.by, id, error));
    const call = { ...asked, instance };
    return { call, known: (await read?.(call)) as Read };
  };
  return {
    ...words,
    async plan(asked, id) {
      const { call, known } = await start(asked, id);
      const why = await refused(call, known);
      return { refused: why, from: null, note: null, effects: [], ...(await plan(call, known)) };
    },
    async act(asked, id) {
      const { env, by, given } = asked;
      const { call, known } = await start(asked, id);
      const actionId = actionIdOf(by);
      const next = { id, tenantId: by.tenantId, run: call.instance.run + 1 };
      const decided = await change({ ...call, actionId, next }, known);
      const { detail, before, after, to = String(after?.status), done, ...writes } = decided;
      const action: Action = { id: actionId, verb: words.verb, target: id, instanceId: id, reason: given.reason };
      const { answers, isApplied } = await act<string>(env, by, { ...action, ...{ detail, before, after } } as Action, {
        ...writes,
        change: decided.change ?? NO_CHANGE,
        refused: async () => {
          const now = await getInstance(env, by, id);
          return { why: await refused({ ...call, instance: now }, known), from: now.status, to };
        },
      });
      return { action_id: actionId, ...((await done?.(answers, isApplied)) as object) } as AnswerOf<Answer>;
    },
  };
}
