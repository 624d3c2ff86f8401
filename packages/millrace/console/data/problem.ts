export interface Problem {
  code: string;
  title: string;
  detail: string;
  /** The HTTP status of the response. 0 if no response arrived. */
  status: number;
  retryable: boolean;
  issues?: { path: string; message: string }[];
  /** The additional fields of the problem document, such as the id of a conflicting instance. */
  [more: string]: unknown;
}

/** A response without a problem document, such as a proxy's response, is described by the HTTP status. */
export async function problemIn(answer: Response): Promise<Problem> {
  const said = (await answer.json().catch(() => ({}))) as Partial<Problem>;
  const title = said.title ?? `The answer was ${answer.status}`;
  return {
    retryable: false,
    code: "unexpected",
    detail: "The answer did not come from the engine but from a proxy in front of it.",
    ...said,
    title,
    status: answer.status,
  };
}

export function unsendable(detail: string): Problem {
  return { code: "unsendable", title: "It cannot be sent as it is", detail, status: 0, retryable: false };
}

export function unanswered(isAct = false): Problem {
  return {
    code: "no_answer",
    title: "No answer",
    detail: isAct
      ? "No answer came, so the result is unknown. Send it again: a repeat with the same key has no second effect."
      : "The engine cannot be reached. The page shows older data and retries automatically.",
    status: 0,
    retryable: true,
  };
}
