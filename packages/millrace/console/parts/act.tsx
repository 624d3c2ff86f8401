import type { ComponentChildren, VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Result, send } from "../data/api.ts";
import { useCell } from "../data/cell.ts";
import { tell } from "../data/notices.ts";
import type { Problem } from "../data/problem.ts";
import { session } from "../data/session.ts";
import { AGAIN_MS, useShown } from "../data/use-data.ts";
import { go } from "../frame/router.tsx";
import { Dialog } from "./dialog.tsx";
import { Button, ProblemNote } from "./page.tsx";
import { Icon } from "./text.tsx";

interface ActProps<Plan, Done> {
  title: string;
  /** The text of the button. Default: `title`. */
  verb?: string;
  /** The text of the dialog's title and button after the dry run, with the number of items. Default: `title` and `verb`. */
  titled?: (plan: Plan) => string;
  /** A warning that the action cannot be undone, shown in red before the button. Default none. */
  final?: string | null | ((plan: Plan) => string | null);
  /** The request of the action. The dialog adds the reason to the body, or for DELETE to the query. */
  at?: string;
  how?: "POST" | "PUT" | "DELETE";
  param?: Record<string, string>;
  body?: object;
  /** Fields of the body that the plan determines. */
  planned?: (plan: Plan) => object;
  /** Loads the plan, which the dialog shows first; `true` sends the request as a dry run. By default, only `show` describes the action. */
  dryRun?: true | (() => Promise<Result<Plan>>);
  show: string | VNode | ((plan: Plan) => ComponentChildren);
  /** Reads from the plan the reason why the API would refuse the action. Default: the plan's field `refused`. */
  refusal?: (plan: Plan) => string | null;
  showRefused?: (plan: Plan) => ComponentChildren;
  /** Performs the action, if it is not the request to `at`. */
  act?: (reason: string) => Promise<Result<Done>>;
  /**
   * A text that identifies the action together with the title and the request. The request then has an idempotency key, which remains the
   * same until a response arrives, so that a repeated request has no second effect.
   */
  on?: string | undefined;
  ask?: string;
  done?: (done: Done) => void;
  /** Reloads the screen after the action and shows the result in the words of `said`, if `done` is not set. */
  told?: (sentence: ComponentChildren) => void;
  said?: string | ((done: Done) => ComponentChildren);
  /** The screen that is opened after the action, unless the user has left the screen with the dialog. */
  leadsTo?: (done: Done) => string | undefined;
  close: () => void;
  /** Additional fields of the dialog, whose values are in `body`. */
  children?: ComponentChildren;
  /** The reason why the request cannot be sent yet, such as an empty field. Then the dialog has no plan. Default false. */
  missing?: string | false;
}

/** Requests with a key, but without a response. If the user repeats it in another dialog, the same idempotency key and reason are sent. */
const unanswered = new Map<string, { key: string; reason: string }>();

session.listen(({ state }) => state === "out" && unanswered.clear());

/**
 * A dialog for one action, which shows the plan, the reason field and the button in this order. A single key press cannot start the action,
 * and a double click starts the action only once.
 */
export function Act<Plan, Done>(props: ActProps<Plan, Done>) {
  const { title, verb = title, titled, final = null, at = "", how = "POST", param = {}, body, planned, dryRun } = props;
  const { ask = "Reason (kept in the audit)", missing = false } = props;
  const { show, showRefused, refusal = refusedIn, act, on, told, said, leadsTo, close, children } = props;
  const { done = (answer) => told?.(typeof said === "function" ? said(answer) : said) } = props;
  const [problem, setProblem] = useState<Problem | undefined>();
  const [isActing, setActing] = useState(false);
  const [isLeaving, leave] = useState(false);
  const isUnderWay = useRef(false);
  const isShown = useShown();
  const reason = useRef<HTMLInputElement>(null);
  const of = JSON.stringify([title, on, at, param, body]);
  const post = (more: object, key?: string) => {
    const asked = { [how === "DELETE" ? "query" : "body"]: { ...body, ...more } };
    return send(how, at, { param, ...asked, ...(on !== undefined && key && { key }) }) as Promise<Result<never>>;
  };
  const { plan, again } = usePlan<Plan>(dryRun === true ? () => post({ reason: "Dry run", dry_run: true }) : dryRun, of, missing === false);
  const nth = useCell(session, (one) => one.nth);
  useEffect(() => setProblem(undefined), [of]);
  useEffect(() => setProblem((one) => (one?.status === 401 ? undefined : one)), [nth]);
  useEffect(() => firstField(reason.current)?.focus(), []);
  const before = useMemo(() => (isActing ? undefined : unanswered.get(of)), [of, isActing]);
  useEffect(() => {
    if (before && reason.current) reason.current.value = before.reason;
  }, [before]);

  const refused = plan?.ok ? refusal(plan.data) : null;
  const exactly = plan?.ok ? titled?.(plan.data) : undefined;
  const lasting = typeof final === "function" ? plan?.ok && refused === null && final(plan.data) : final;
  const confirm = async () => {
    const why = reason.current?.value.trim() ?? "";
    if (why === "") return reason.current?.reportValidity();
    // This flag is a ref instead of a state, because a second click may occur before the next render.
    if (isUnderWay.current || !plan?.ok || refused !== null) return;
    isUnderWay.current = true;
    setActing(true);
    const from = location.pathname + location.search;
    const sent = before ?? { key: crypto.randomUUID(), reason: why };
    if (on !== undefined) unanswered.set(of, sent);
    const result = await (act?.(why) ?? post({ reason: sent.reason, ...planned?.(plan.data) }, sent.key));
    if (result.ok || (result.problem.status >= 400 && result.problem.status < 500)) unanswered.delete(of);
    isUnderWay.current = false;
    const href = result.ok ? leadsTo?.(result.data) : undefined;
    if (!isShown.current) {
      tell({ said: result.ok ? `${title}: done.` : `${title}. ${result.problem.title}: ${result.problem.detail}`, href: href ?? from });
      return result.ok ? done(result.data) : undefined;
    }
    setActing(false);
    leave(false);
    if (!result.ok) {
      // The dry run is repeated after a refusal, because the state may have changed.
      if (![0, 401].includes(result.problem.status)) again();
      return setProblem(result.problem);
    }
    close();
    done(result.data);
    if (href) go(href);
  };
  return (
    <Dialog title={exactly ?? title} close={isActing ? () => leave(true) : close} confirm={confirm}>
      {children}
      <section class="plan" aria-label="Preview" aria-live="polite">
        {plan === undefined && <p class="quiet">{missing || "Loading the preview …"}</p>}
        {plan?.ok && refused === null && (typeof show === "function" ? show(plan.data) : <p>{show}</p>)}
        {refused !== null && <p class="problem">{refused}</p>}
        {plan?.ok && refused !== null && showRefused?.(plan.data)}
        {plan?.ok === false && (
          <>
            <ProblemNote problem={plan.problem} />
            <Button press={again}>Try again</Button>
          </>
        )}
      </section>
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
      <form
        class="reason"
        onSubmit={(event) => {
          event.preventDefault();
          void confirm();
        }}
      >
        <label>
          {ask}
          <input ref={reason} type="text" maxLength={500} required autocomplete="off" readOnly={before !== undefined} />
        </label>
        <button class={lasting ? "main danger" : "main"} type="submit" disabled={isActing || !plan?.ok || refused !== null}>
          {lasting && <Icon name="warning" />}
          {exactly ?? verb}
        </button>
        <Button press={close}>Dismiss</Button>
        <span class="quiet hint">
          <kbd>Ctrl+Enter</kbd>
        </span>
      </form>
    </Dialog>
  );
}

const refusedIn = (plan: unknown) => (plan as { refused?: string | null } | undefined)?.refused ?? null;

/** Returns the first empty field of the dialog, or the reason field if no field is empty. */
function firstField(reason: HTMLInputElement | null): HTMLElement | null {
  const fields = reason?.closest("dialog")?.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>('input[type="text"], textarea') ?? [];
  return [...fields].find((one) => one.value === "" && one.checkVisibility()) ?? reason;
}

const LOOK_BEHIND_MS = 250;

/**
 * The dry run of an action or a message. The dry run is repeated when the fields of the action or message (`of`) change, after a sign-in,
 * and after a failed request. The plan is undefined until a response for the current fields arrives.
 */
export function usePlan<Plan>(dryRun: (() => Promise<Result<Plan>>) | undefined, of: string, isReady: boolean) {
  const [answer, setAnswer] = useState<{ of: string; plan: Result<Plan> } | undefined>();
  const [times, setTimes] = useState(0);
  const nth = useCell(session, (one) => one.nth);
  const again = () => setTimes((before) => before + 1);
  useEffect(() => {
    if (!isReady) return;
    let isOver = false;
    const look = async () => {
      const plan = await dryRun?.();
      if (plan && !isOver) setAnswer({ of, plan });
    };
    const timer = setTimeout(look, answer === undefined ? 0 : LOOK_BEHIND_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [isReady, of, times, nth]);
  useEffect(() => {
    if (!answer || answer.plan.ok || !answer.plan.problem.retryable) return;
    const timer = setTimeout(again, AGAIN_MS);
    return () => clearTimeout(timer);
  }, [answer]);
  if (!dryRun) return { plan: isReady ? { ok: true as const, data: undefined as Plan } : undefined, last: undefined, again };
  // A response for previous values of the fields is not the plan, but `last`.
  return { plan: answer?.of === of ? answer.plan : undefined, last: answer?.plan, again };
}

interface FieldProps {
  label: ComponentChildren;
  value: string;
  set: (value: string) => void;
  most?: number;
  placeholder?: string;
}

export function TextField({ label, value, set, most, placeholder }: FieldProps) {
  return (
    <label class="field">
      <span>{label}</span>
      <input
        {...{ type: "text", autocomplete: "off", spellcheck: false, value, maxLength: most, placeholder }}
        onInput={(event) => set(event.currentTarget.value)}
      />
    </label>
  );
}

interface CheckProps {
  label: ComponentChildren;
  isSet: boolean;
  set: (isSet: boolean) => void;
  disabled?: boolean;
}

export function Check({ label, isSet, set, disabled }: CheckProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={isSet} disabled={disabled} onChange={() => set(!isSet)} /> <span>{label}</span>
    </label>
  );
}

/** A field for a time in the time zone of the page; `value` is the text of the field. */
export function TimeField({ label, value, set }: Pick<FieldProps, "label" | "value" | "set">) {
  return (
    <label class="field">
      <span>{label}</span>
      <input type="datetime-local" step="1" value={value.replace(" ", "T")} onInput={(event) => set(event.currentTarget.value)} />
    </label>
  );
}
