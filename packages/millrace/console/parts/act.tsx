import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Path, type Result, send } from "../data/api.ts";
import { useCell } from "../data/cell.ts";
import { tell } from "../data/notices.ts";
import { loadOperations, type Operation, operationAt } from "../data/operations.ts";
import type { Problem } from "../data/problem.ts";
import type { Schema } from "../data/schema.ts";
import { may, session } from "../data/session.ts";
import { useData, useShown } from "../data/use-data.ts";
import { jsonText, wrongIn } from "../data/written.ts";
import { go, hrefOf, Link, useKeys } from "../frame/router.tsx";
import { Dialog } from "./dialog.tsx";
import { Fields } from "./form.tsx";
import { Button, ProblemNote, Reading } from "./page.tsx";
import { EffectPlan, type Plan } from "./plan.tsx";
import { clockTime, copied, Icon, marked } from "./text.tsx";

type Values = Readonly<Record<string, unknown>>;

/** An action on an item. The operation of the API determines the texts and the fields of its dialog. */
export interface Declared {
  verb: string;
  /** The item, as the title of the dialog names it. */
  about?: string | undefined;
  at: Path;
  how?: "POST" | "PUT" | "DELETE";
  param?: Record<string, string>;
  /** Values that the dialog does not ask for. */
  given?: Values;
  /** Initial values of fields. A field with the value undefined is required and initially empty. */
  fill?: Values;
  /** Changes the fields, such as the choices of a field. */
  shape?: (fields: Record<string, Schema>) => Record<string, Schema>;
  /** The title and the button after the dry run, such as the number of items. `said` are the values of the fields. */
  titled?(plan: unknown, said: Values): string;
  /** Fields of the body that the plan determines. */
  planned?(plan: unknown): Values;
  /** Shows the plan of the dry run. Default: its consequence and the effects. */
  show?(plan: unknown, said: Values): ComponentChildren;
  /** Reads from the plan the reason why the API would refuse the action. Default: the plan's field `refused`. */
  refusal?(plan: unknown, said: Values): string | null;
  /** Reads from the plan the reason why the action cannot be undone. Default: the reason in the API's document. */
  final?(plan: unknown): string | null;
  /** The result in a sentence. Default: the result in the API's document. */
  says?(answer: unknown): string | undefined;
  /** Default: reloads the screen and shows the result. */
  done?(answer: unknown): void;
  /** The screen that is opened after the action, unless the user has left the screen with the dialog. Default: a started bulk action. */
  leadsTo?(answer: unknown): string | undefined;
  /** Further content of the dialog, which may set a field. */
  more?: (set: (values: Values) => void) => ComponentChildren;
}

/** Opens the dialog of an action. The component that calls `useActs` provides it to its buttons. */
export const Asking = createContext<(act: Declared) => void>(() => {});

/**
 * The dialog and the result of the actions of a screen. `ask` opens the dialog of an action, and `line` shows the dialog and the result of
 * the last action, which is announced to screen readers. `again` reloads the screen after an action. `after` is shown after each result. The
 * key `c` copies `id`.
 */
export function useActs(again: () => void, { id, after }: { id?: string; after?: ComponentChildren } = {}) {
  const [act, ask] = useState<Declared | undefined>();
  const [said, say] = useState<ComponentChildren>("");
  const told = (sentence: ComponentChildren) => {
    say([sentence, after]);
    again();
  };
  useKeys(id ? { c: () => void copied(id).then((isCopied) => say(isCopied ? "Id copied." : "The browser refused to copy the id.")) } : {});
  const line = (
    <>
      <div class="told" role="status">
        {said}
      </div>
      {act && <Act {...act} told={told} close={() => ask(undefined)} />}
    </>
  );
  return { told, say, line, ask: ask as (act: Declared) => void };
}

type Pressed = Declared & { class?: string | undefined; label?: string };

/** Buttons that open the dialogs of actions. An action that is not possible is false or undefined. */
export function ActButtons({ of }: { of: readonly (Pressed | false | undefined)[] }) {
  const ask = useContext(Asking);
  const acts = of.filter((one) => one !== false && one !== undefined);
  return (
    <>
      {acts.map(({ class: kind, label, ...act }) => (
        <Button key={act.verb} class={kind} {...(label && { label })} aim={loadOperations} press={() => ask(act)}>
          {act.verb}
        </Button>
      ))}
    </>
  );
}

/** A line of buttons, for a token that may act. */
export function Acts({
  of,
  children,
  class: kind = "acts",
}: Parameters<typeof ActButtons>[0] & { class?: string; children?: ComponentChildren }) {
  if (!may("operate") || !of.some(Boolean)) return null;
  return (
    <p class={kind}>
      <ActButtons of={of} />
      {children}
    </p>
  );
}

/** Requests with a key, but without a response. If the user repeats it in another dialog, the same idempotency key and reason are sent. */
const unanswered = new Map<string, { key: string; reason: string }>();

session.listen(({ state }) => state === "out" && unanswered.clear());

const NO_FIELDS: Operation["fields"] = {};

interface ActProps extends Declared {
  told: (sentence: ComponentChildren) => void;
  close: () => void;
}

/**
 * A dialog for one action, which shows the fields, the plan, the reason field and the button in this order. A single key press cannot start
 * the action, and a double click starts the action only once.
 */
function Act(props: ActProps) {
  const { verb, about, at, how = "POST", param = {}, given = {}, fill = {}, shape = (fields) => fields, told, close } = props;
  const { titled, planned, show = (plan) => <EffectPlan plan={plan as Plan} />, refusal = refusedIn, final, more, says } = props;
  const { leadsTo = bulkIn, done = (answer) => told(<Done answer={answer} says={says?.(answer) ?? `${operation?.done}.`} />) } = props;
  const { data: operation, problem: unread } = useData(() => operationAt(how, at), [how, at]);
  const isLoaded = operation !== undefined;
  const [said, say] = useState<Values>(fill);
  const [problem, setProblem] = useState<Problem | undefined>();
  const [isActing, setActing] = useState(false);
  const [isLeaving, leave] = useState(false);
  const [earlyOf, setEarly] = useState("");
  const isUnderWay = useRef(false);
  const isShown = useShown();
  const reason = useRef<HTMLInputElement>(null);
  const of = jsonText([at, param, said, given]);
  const { properties = {}, required = [] } = operation?.fields ?? NO_FIELDS;
  const asked = Object.entries(shape(properties)).filter(([name]) => !(name in param) && !(name in given));
  const needed = [...required, ...Object.keys(fill).filter((name) => fill[name] === undefined)];
  const lacking = needed.filter((name) => asked.some(([one]) => one === name) && (said[name] ?? "") === "");
  const [wrong] = wrongIn(said, "");
  const missing = lacking.length > 0 ? `Enter ${lacking.join(", ")}.` : wrong && `${wrong.path.slice(1)}: ${wrong.message}`;
  const post = (values: Values, key?: string) => {
    const sent = { path: { ...param }, query: {}, body: {} };
    for (const [name, value] of Object.entries({ ...said, ...given, ...values }))
      Object.assign(sent[operation?.placeOf(name) ?? "body"], { [name]: value });
    const { path, query, body } = sent;
    return send(how, at, { param: path, query, ...(how !== "DELETE" && { body }), ...(operation?.isKeyed && key && { key }) });
  };
  const dryRun = operation?.hasDryRun ? () => post({ reason: "Dry run", dry_run: true }) : undefined;
  const { plan, again } = usePlan<unknown>(dryRun, of, isLoaded && !missing);
  const nth = useCell(session, (one) => one.nth);
  useEffect(() => setProblem(undefined), [of]);
  useEffect(() => setProblem((one) => (one?.status === 401 ? undefined : one)), [nth]);
  useEffect(() => firstField(reason.current)?.focus(), [isLoaded]);
  const before = useMemo(() => (isActing ? undefined : unanswered.get(of)), [of, isActing]);
  useEffect(() => {
    if (before && reason.current) reason.current.value = before.reason;
  }, [before, isLoaded]);

  const values = { ...said, ...given };
  const title = [verb, about].filter(Boolean).join(": ");
  const refused = plan?.ok ? refusal(plan.data, values) : null;
  const exactly = plan?.ok ? titled?.(plan.data, values) : undefined;
  const lasting = final ? plan?.ok && refused === null && final(plan.data) : operation?.final;
  const confirm = async () => {
    const why = reason.current?.value.trim() ?? "";
    if (lacking.length > 0) return firstField(reason.current)?.focus();
    if (why === "") return reason.current?.reportValidity();
    if (!plan) return setEarly(of);
    // This flag is a ref instead of a state, because a second click may occur before the next render.
    if (isUnderWay.current || !plan.ok || refused !== null) return;
    isUnderWay.current = true;
    setActing(true);
    const from = location.pathname + location.search;
    const sentAt = clockTime(Date.now());
    const sent = before ?? { key: crypto.randomUUID(), reason: why };
    if (operation?.isKeyed) unanswered.set(of, sent);
    const result = await post({ reason: sent.reason, ...planned?.(plan.data) }, sent.key);
    if (result.ok || (result.problem.status >= 400 && result.problem.status < 500)) unanswered.delete(of);
    isUnderWay.current = false;
    const href = result.ok ? leadsTo(result.data) : undefined;
    if (!isShown.current) {
      tell({ said: result.ok ? `${title}: done.` : `${title}. ${result.problem.title}: ${result.problem.detail}`, href: href ?? from });
      return result.ok ? done(result.data) : undefined;
    }
    setActing(false);
    leave(false);
    if (!result.ok) {
      const { status } = result.problem;
      if (operation?.isCreating && (status === 0 || status >= 500)) {
        // The request is not repeated, because a repeated request would create a second object. The list is reloaded.
        close();
        const lost = `${title}: the request of ${sentAt} may have succeeded, but its result cannot be shown. Look in the list before you repeat it.`;
        return told(<span class="wrong">{lost}</span>);
      }
      // The dry run is repeated after a refusal, because the state may have changed.
      if (![0, 401].includes(status)) again();
      return setProblem(result.problem);
    }
    close();
    done(result.data);
    if (href) go(href);
  };
  return (
    <Dialog title={exactly ?? title} close={isActing ? () => leave(true) : close} confirm={confirm}>
      {operation ? (
        <>
          <p>
            {/* A preview describes the consequences for this item, which the general description would only repeat. */}
            <strong>{operation.summary}.</strong> {!operation.hasDryRun && marked(operation.description)}
          </p>
          {more?.((values) => say({ ...said, ...values }))}
          <Asked
            fields={asked}
            {...{ required: needed, fill, said, say }}
            issues={(plan?.ok === false ? plan.problem : problem)?.issues ?? []}
          />
          <section class="plan" aria-label="Preview" aria-live="polite">
            {plan === undefined && <p class="quiet">{missing || (earlyOf === of ? EARLY : "Loading the preview …")}</p>}
            {refused !== null && <p class="problem">{refused}</p>}
            {plan?.ok && operation.hasDryRun && show(plan.data, values)}
            {plan?.ok === false && (
              <>
                <ProblemNote problem={plan.problem} />
                <Button press={again}>Try again</Button>
              </>
            )}
          </section>
        </>
      ) : (
        <Reading problem={unread} />
      )}
      {problem && <ProblemNote problem={problem} />}
      {lasting && (
        <p class="final">
          <Icon name="warning" /> <span>{lasting}</span>
        </p>
      )}
      {isLeaving && (
        <div class="problem" role="alert">
          <p>
            <strong>The request was sent; the answer is still pending.</strong> It continues if you close this dialog, and the result
            appears as a notice.
          </p>
          <Button press={close}>Close without waiting</Button>
        </div>
      )}
      {before && (
        <p class="quiet">
          This request was sent before with the reason below, and no answer came. Sending it again repeats the same action, without a second
          effect.
        </p>
      )}
      {operation && (
        <form
          class="reason"
          noValidate
          onSubmit={(event) => {
            event.preventDefault();
            void confirm();
          }}
        >
          <label>
            Reason (kept in the audit)
            <input ref={reason} type="text" maxLength={500} required autocomplete="off" readOnly={before !== undefined} />
          </label>
          {/* A disabled button would ignore Enter without a word. */}
          <button
            type="submit"
            class={lasting ? "main danger" : "main"}
            disabled={isActing || (plan && !plan.ok) || refused !== null}
            aria-disabled={!plan}
          >
            {lasting && <Icon name="warning" />}
            {exactly ?? verb}
          </button>
          <Button press={close}>Dismiss</Button>
          <span class="quiet hint">
            <kbd>Ctrl+Enter</kbd>
          </span>
        </form>
      )}
    </Dialog>
  );
}

interface AskedProps {
  fields: [string, Schema][];
  required: string[];
  fill: Values;
  said: Values;
  say: (said: Values) => void;
  issues: readonly { path: string; message: string }[];
}

/** The fields of an action. Optional fields without an initial value are folded, except booleans that are true by default. */
function Asked({ fields, required, fill, said, say, issues }: AskedProps) {
  const isFolded = ([name, one]: [string, Schema]) => !required.includes(name) && one.default !== true && !(name in fill);
  const told = { issues: new Map(issues.map(({ path, message }) => [path, message])), isAll: true };
  const draw = (some: [string, Schema][]) => {
    const properties = Object.fromEntries(some);
    const others = Object.entries(said).filter(([name]) => !(name in properties));
    const own = Object.entries(said).filter(([name]) => name in properties);
    const set = (next: unknown) => say({ ...Object.fromEntries(others), ...(next as Values) });
    return <Fields schema={{ type: "object", properties, required }} value={Object.fromEntries(own)} set={set} told={told} />;
  };
  const options = fields.filter(isFolded);
  return (
    <>
      {draw(fields.filter((one) => !isFolded(one)))}
      {options.length > 0 && (
        <details>
          <summary>Options</summary>
          {draw(options)}
        </details>
      )}
    </>
  );
}

const refusedIn = (plan: unknown) => (plan as { refused?: string | null } | undefined)?.refused ?? null;

function bulkIn(answer: unknown): string | undefined {
  const { bulk_action_id: id } = (answer ?? {}) as { bulk_action_id?: string | null };
  return id ? hrefOf("actions", id) : undefined;
}

function Done({ answer, says }: { answer: unknown; says: string }) {
  const { instance_id: instance } = (answer ?? {}) as { instance_id?: string | null };
  const href = instance && hrefOf("instances", instance);
  return (
    <>
      {says} {href && href !== location.pathname && <Link to={href}>Open the instance</Link>}
    </>
  );
}

/** Returns the first empty field of the dialog, or the reason field if no field is empty. */
function firstField(reason: HTMLInputElement | null): HTMLElement | null {
  const fields = reason?.closest("dialog")?.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>('input[type="text"], textarea') ?? [];
  return [...fields].find((one) => one.value === "" && one.checkVisibility()) ?? reason;
}

const EARLY = "The request was not sent: the preview is still loading. Confirm again when it is shown.";
const PAUSE_MS = 250;

/**
 * The dry run of an action or a message. The dry run is repeated when the fields of the action or message (`of`) change, after a sign-in,
 * and after a failed request. The plan is undefined until a response for the current fields arrives.
 */
export function usePlan<Plan>(dryRun: (() => Promise<Result<Plan>>) | undefined, of: string, isReady: boolean) {
  const load = async (): Promise<Result<{ of: string; plan: Result<Plan> } | undefined>> => {
    if (!isReady || !dryRun) return NO_PLAN;
    const plan = await dryRun();
    return plan.ok ? { ok: true, data: { of, plan } } : plan;
  };
  const { data, problem, again } = useData(load, [of, isReady], [], { pauseMs: PAUSE_MS });
  // Between a change of a field and the next load, the held plan is the plan of the fields before.
  const found = problem ? { ok: false as const, problem } : data?.of === of ? data.plan : undefined;
  return { plan: dryRun || !isReady ? found : (NO_PLAN as Result<Plan>), again };
}

const NO_PLAN = { ok: true as const, data: undefined };
