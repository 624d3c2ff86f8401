/** What an answer says that is none: RFC 9457, as the API has it. */
export interface Problem {
  code: string;
  title: string;
  detail: string;
  /** 0 where there was no answer. */
  status: number;
  retryable: boolean;
  issues?: { path: string; message: string }[];
  /** Everything else that it says, such as the instance that was in the way. */
  [more: string]: unknown;
}

/** Reads a refusal. What is no problem document, from a proxy perhaps, is said by its status. */
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

/** What is said of a request that cannot be made as it is. */
export function unsendable(detail: string): Problem {
  return { code: "unsendable", title: "It cannot be sent as it is", detail, status: 0, retryable: false };
}

/** What is said where nothing answered: to a look, or to something that was to be done. */
export function unanswered(error: unknown, isAct = false): Problem {
  const aborted = error instanceof Error && error.name === "AbortError";
  return {
    code: aborted ? "aborted" : "no_answer",
    title: aborted ? "Given up" : "No answer",
    detail: isAct
      ? "No answer came, so the result is unknown. Send it again: a repeat with the same key has no second effect."
      : "The engine cannot be reached. The page shows older data and retries automatically.",
    status: 0,
    retryable: true,
  };
}
