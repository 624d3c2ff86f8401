import { useLayoutEffect, useRef } from "preact/hooks";
import { may } from "../../data/session.ts";
import { useKeys } from "../../frame/keys.ts";
import { Button, Code, ProblemNote } from "../../parts/page.tsx";
import { PlanOfReplay } from "./acts.tsx";
import { type Detail, type Draft, placeOf } from "./draft.ts";

interface WorkbenchProps {
  letter: Detail;
  draft: Draft;
  reveal: (() => void) | undefined;
  send: (() => void) | undefined;
}

export function Workbench({ letter, draft, reveal, send }: WorkbenchProps) {
  const editor = useRef<HTMLTextAreaElement>(null);
  const isOpen = letter.state === "open" && may("operate");
  useKeys({ e: () => editor.current?.focus() });
  const show = (path: string) => {
    editor.current?.focus();
    editor.current?.setSelectionRange(...placeOf(draft.text, path));
  };
  return (
    <div class="letters-bench">
      <section aria-label="Message">
        <h2>Message{draft.isChanged && <span class="quiet">, edited</span>}</h2>
        <Editor at={editor} draft={draft} isOpen={isOpen} send={send} />
        <Withheld draft={draft} reveal={reveal} />
      </section>
      <section aria-label="Schema check">
        <h2>Schema check</h2>
        <Definition letter={letter} />
        <Issues draft={draft} show={isOpen ? show : undefined} />
        {letter.state === "open" && <Outcome letter={letter} draft={draft} />}
      </section>
    </div>
  );
}

function Outcome({ letter, draft: { isBehind, isChanged, plan } }: { letter: Detail; draft: Draft }) {
  return (
    <div aria-busy={isBehind}>
      <h2>Preview: replay {isChanged ? "as edited" : "unchanged"}</h2>
      {plan.ok ? <PlanOfReplay plan={plan.data} came={letter.replay} /> : <ProblemNote problem={plan.problem} />}
    </div>
  );
}

interface EditorProps {
  at: { current: HTMLTextAreaElement | null };
  draft: Draft;
  isOpen: boolean;
  send: (() => void) | undefined;
}

/** The editor of a dead letter's message, read-only once the dead letter is settled. */
function Editor({ at, draft: { text, edit, reset, isChanged }, isOpen, send }: EditorProps) {
  // The text of the editor is only set if other code changed the text, so that the cursor keeps its position.
  useLayoutEffect(() => {
    if (at.current && at.current.value !== text) at.current.value = text;
  }, [text]);
  return (
    <>
      <textarea
        ref={at}
        class="code"
        aria-label="Message, as JSON"
        defaultValue={text}
        readOnly={!isOpen}
        spellcheck={false}
        autocomplete="off"
        rows={Math.min(text.split("\n").length, 40)}
        onInput={(event) => edit(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") event.currentTarget.blur();
          if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
          event.preventDefault();
          send?.();
        }}
      />
      {isOpen && (
        <p class="quiet acts">
          {isChanged ? (
            <Button press={reset}>Undo the changes</Button>
          ) : (
            <span>
              <kbd>e</kbd>edits the message
            </span>
          )}
          <span>
            <kbd>Ctrl+Enter</kbd>opens the replay
          </span>
        </p>
      )}
    </>
  );
}

function Withheld({ draft, reveal }: { draft: Draft; reveal: (() => void) | undefined }) {
  if (!reveal) return <p class="quiet">All fields are shown. The audit records that you saw them.</p>;
  if (!draft.text.includes("[redacted]")) return null;
  if (!may("reveal"))
    return (
      <p class="quiet">Some fields are withheld. A token with the scope `reveal` can show them. A replay keeps their stored values.</p>
    );
  return (
    <p class="acts">
      <button type="button" disabled={draft.isChanged} onClick={reveal}>
        Reveal withheld fields
      </button>
      <span class="quiet">
        {draft.isChanged ? "Undo your changes first." : "This is recorded in the audit. A replay keeps the stored values."}
      </span>
    </p>
  );
}

function Definition({ letter: { definition, message_type: type } }: { letter: Detail }) {
  if (!definition) return <p class="quiet">This deployment does not know {type ? <bdi>{type}</bdi> : "a message without a type"}.</p>;
  return (
    <p class="quiet">
      {definition.kind} {definition.type}, version {definition.version}
      {definition.workflow && <>, performed by {definition.workflow}</>}
    </p>
  );
}

function Issues({ draft: { mistake, plan, isBehind }, show }: { draft: Draft; show: ((path: string) => void) | undefined }) {
  const refused = plan.ok ? plan.data.refused : null;
  return (
    <div class="letters-issues" aria-live="polite" aria-busy={isBehind}>
      {mistake ? (
        <div class="problem">
          <p>
            <strong>Not valid JSON.</strong> {mistake}
          </p>
        </div>
      ) : refused ? (
        <div class="problem">
          <p>
            <strong>{refused.title}.</strong> <bdi>{refused.detail}</bdi>
          </p>
          <ul>
            {(refused.issues ?? []).map(({ path, message }) => (
              <li key={`${path} ${message}`}>
                {show ? (
                  <button type="button" class="plain" title="Select it in the message" onClick={() => show(path)}>
                    <code>{path}</code>
                  </button>
                ) : (
                  <code>{path}</code>
                )}{" "}
                <bdi>{message}</bdi>
              </li>
            ))}
          </ul>
          <p class="quiet">
            <Code code={refused.code} />
          </p>
        </div>
      ) : (
        plan.ok && plan.data.outcome !== "settled" && <p class="letters-good">The message is valid by the deployed schema.</p>
      )}
      {isBehind && !mistake && <p class="quiet">Checking …</p>}
    </div>
  );
}
