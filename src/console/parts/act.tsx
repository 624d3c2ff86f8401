import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Result } from "../data/api.ts";
import type { Problem } from "../data/problem.ts";
import { Dialog } from "./dialog.tsx";
import { ProblemNote } from "./problem.tsx";

interface ActProps<Plan, Done> {
  title: string;
  /** What the button says, such as `Retry`. */
  verb: string;
  /** Asks what would happen; it is shown before anything does. Where the API has no such question, `show` says it alone. */
  dryRun?: () => Promise<Result<Plan>>;
  show: (plan: Plan) => ComponentChildren;
  /** Why it would be refused now; null where it would not be. Default never. */
  refusal?: (plan: Plan) => string | null;
  /** Does it. The key is one for as long as the dialog is open, so that asked twice it is one act. */
  act: (reason: string, key: string) => Promise<Result<Done>>;
  /** What the reason is asked for by. Default `Why; kept in the audit`. */
  ask?: string;
  /** Hears what came of it; the dialog closes by itself. */
  done: (done: Done) => void;
  close: () => void;
  /** Fields beside the reason, whose values are in `depends`: the dry run is asked again when they change. */
  children?: ComponentChildren;
  depends?: readonly unknown[];
  /** False while a field cannot be sent as it is. Default true. */
  isReady?: boolean;
}

const LOOK_BEHIND_MS = 250;

/** Asks for one act: what would happen first, then why. Nothing happens by one key, nor twice by two clicks. */
export function Act<Plan, Done>(props: ActProps<Plan, Done>) {
  const { title, verb, dryRun, show, refusal = () => null, act, done, close, children, depends = [], isReady = true } = props;
  const { ask = "Why; kept in the audit" } = props;
  const [key] = useState(() => crypto.randomUUID());
  const [plan, setPlan] = useState<Result<Plan> | undefined>();
  const [problem, setProblem] = useState<Problem | undefined>();
  const [isActing, setActing] = useState(false);
  const isUnderWay = useRef(false);
  const reason = useRef<HTMLInputElement>(null);

  useEffect(() => {
    if (!isReady) return;
    let isOver = false;
    const look = async () => {
      const found = dryRun ? await dryRun() : { ok: true as const, data: undefined as Plan };
      if (!isOver) setPlan(found);
    };
    const timer = setTimeout(look, plan === undefined ? 0 : LOOK_BEHIND_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [isReady, ...depends]);
  useEffect(() => reason.current?.focus(), []);

  const refused = plan?.ok ? refusal(plan.data) : null;
  const confirm = async () => {
    const why = reason.current?.value.trim() ?? "";
    if (why === "") return reason.current?.reportValidity();
    // By reference, because a second click comes before the button is drawn again.
    if (isUnderWay.current || !isReady || !plan?.ok || refused !== null) return;
    isUnderWay.current = true;
    setActing(true);
    const result = await act(why, key);
    isUnderWay.current = false;
    setActing(false);
    if (!result.ok) return setProblem(result.problem);
    close();
    done(result.data);
  };
  return (
    <Dialog title={title} close={close} confirm={confirm}>
      {children}
      <section class="plan" aria-label="What would happen" aria-live="polite">
        {plan === undefined && <p class="quiet">Asking what would happen …</p>}
        {plan?.ok && refused === null && show(plan.data)}
        {refused !== null && <p class="problem">{refused}</p>}
        {plan?.ok === false && <ProblemNote problem={plan.problem} />}
      </section>
      {problem && <ProblemNote problem={problem} />}
      <form
        class="reason"
        onSubmit={(event) => {
          event.preventDefault();
          void confirm();
        }}
      >
        <label>
          {ask}
          <input ref={reason} type="text" maxLength={500} required autocomplete="off" />
        </label>
        <button class="main" type="submit" disabled={isActing || !isReady || !plan?.ok || refused !== null}>
          {verb}
        </button>
        <span class="quiet">
          <kbd>Ctrl+Enter</kbd>
        </span>
      </form>
    </Dialog>
  );
}
