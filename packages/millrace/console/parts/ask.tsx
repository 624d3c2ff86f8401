import type { ComponentChildren, FunctionComponent, VNode } from "preact";
import { useState } from "preact/hooks";
import { type Path, type post, type Result, send } from "../data/api.ts";
import { Act, type ActProps } from "./act.tsx";
import { useTold } from "./page.tsx";

/** The functions that a dialog calls: `told` shows a result on the screen, and `close` closes the dialog. */
export interface Asker {
  told: (sentence: ComponentChildren) => void;
  close: () => void;
}

/**
 * The dialog and the result of the actions of a screen. `ask` opens a dialog, and `line` shows the dialog and the result of the last
 * action. `again` reloads the screen after an action.
 */
export function useActs(again: () => void) {
  const [dialog, open] = useState<((asker: Asker) => ComponentChildren) | undefined>();
  const { told, say, line } = useTold(again);
  return {
    ...{ told, say },
    ask: <Props extends object>(Dialog: FunctionComponent<Props>, props: Omit<Props, keyof Asker>) =>
      open(() => (asker: Asker) => <Dialog {...(props as Props)} {...asker} />),
    line: (
      <>
        {line}
        {dialog?.({ told, close: () => open(undefined) })}
      </>
    ),
  };
}

type Done<At extends Path> = Extract<Awaited<ReturnType<typeof post<At>>>, { ok: true }>["data"];

interface AskProps<At extends Path, Plan>
  extends Asker,
    Omit<ActProps<Plan, Done<At>>, "verb" | "dryRun" | "show" | "act" | "done" | "close"> {
  /** Default: the title. */
  verb?: string;
  /** The route of the action. The dialog adds the reason to its body, or for DELETE to its query. */
  at: At;
  how?: "POST" | "PUT" | "DELETE";
  param: Readonly<Record<string, string>>;
  body?: object;
  /** The plan of the action: the route's own dry run, or a request that reads the thing that the action changes. Default none. */
  plan?: "dry run" | (() => Promise<Result<Plan>>);
  show: string | VNode | ((plan: Plan) => ComponentChildren);
  /** The result of the action in words. */
  said: string | ((done: Done<At>) => ComponentChildren);
}

/** The dialog of an action that is one request to a route. If the dialog has an identity (`on`), the request has an idempotency key. */
export function Ask<At extends Path, Plan = undefined>(props: AskProps<At, Plan>) {
  const { at, how = "POST", param, body, plan, show, said, told, ...rest } = props;
  const ask = (more: object, key?: string) => {
    const asked = { ...body, ...more };
    return send(how, at, { param, ...(how === "DELETE" ? { query: asked } : { body: asked }), ...(key && { key }) }) as Promise<never>;
  };
  return (
    <Act<Plan, Done<At>>
      verb={props.title}
      {...rest}
      {...(plan && { dryRun: plan === "dry run" ? () => ask({ reason: "Dry run", dry_run: true }) : plan })}
      show={typeof show === "function" ? show : () => <p>{show}</p>}
      act={(reason, key) => ask({ reason }, props.on === undefined ? undefined : key)}
      done={(done) => told(typeof said === "function" ? said(done) : said)}
    />
  );
}
