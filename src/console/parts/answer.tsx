import { useState } from "preact/hooks";
import { post } from "../data/api.ts";
import { Act } from "./act.tsx";

type Done = { action_id: string };

interface AnswerProps {
  done: (action: string) => void;
  close: () => void;
}

const OF_DOUBTS = {
  confirm: "It happened: the step records the output below, and the run goes on.",
  reject: "It did not happen: it runs now, under the same key.",
  retry: "Nobody can tell, and it may happen twice: it runs again under a new key, and the audit says that you knew.",
} as const;

/** Answers a question of an instance with yes or no. */
export function AnswerQuestion({
  id,
  question,
  verb,
  done,
  close,
}: AnswerProps & { id: string; question: string; verb: "approve" | "reject" }) {
  return (
    <Act<undefined, Done>
      title={verb === "approve" ? "Say yes" : "Say no"}
      verb={verb === "approve" ? "Approve" : "Reject"}
      show={() => (
        <>
          <p>
            <bdi>{question}</bdi>
          </p>
          <p class="quiet">Each question is answered once; the instance goes on {verb === "approve" ? "with it" : "without it"}.</p>
        </>
      )}
      act={(reason) => post(`/v1/approvals/:id/${verb}`, { param: { id }, body: { reason } })}
      done={({ action_id }) => done(action_id)}
      close={close}
    />
  );
}

/** Says of an effect in doubt whether it happened. */
export function AnswerDoubt({ name, step, verb, done, close }: AnswerProps & { name: string; step: string; verb: keyof typeof OF_DOUBTS }) {
  const [text, setText] = useState("null");
  const output = parsed(text);
  return (
    <Act<undefined, Done>
      title={`${step}: ${verb}`}
      verb={{ confirm: "It happened", reject: "It did not", retry: "Run it again" }[verb]}
      isReady={verb !== "confirm" || output !== undefined}
      show={() => <p>{OF_DOUBTS[verb]}</p>}
      act={(reason) =>
        post(`/v1/effects/:key/${verb}`, {
          param: { key: name },
          body: { reason, ...(verb === "confirm" && { output: output?.value }) },
        })
      }
      done={({ action_id }) => done(action_id)}
      close={close}
    >
      {verb === "confirm" && <JsonField label="What it answered, as JSON; null for nothing" text={text} change={setText} />}
    </Act>
  );
}

/** A field of JSON, which says at once where it is none. */
export function JsonField({
  label,
  text,
  change,
  mayBeEmpty = false,
}: {
  label: string;
  text: string;
  change: (text: string) => void;
  mayBeEmpty?: boolean;
}) {
  return (
    <label class="field">
      {label}
      <textarea class="code" value={text} spellcheck={false} onInput={(event) => change(event.currentTarget.value)} />
      {parsed(text) === undefined && !(mayBeEmpty && text.trim() === "") && <span class="wrong">This is no JSON yet.</span>}
    </label>
  );
}

/** A text as JSON; undefined for none. */
export function parsed(text: string): { value: unknown } | undefined {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
