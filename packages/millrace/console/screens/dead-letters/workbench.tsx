import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Answer, post, type Result } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { mistakeIn, type Written, writtenJson } from "../../data/written.ts";
import { hrefOf, Link, onConfirm, useKeys } from "../../frame/router.tsx";
import { usePlan } from "../../parts/act.tsx";
import { Button, Code, Issues, Pairs, ProblemNote } from "../../parts/page.tsx";
import { Status } from "../../parts/status.tsx";
import { Id, Quiet, Text } from "../../parts/text.tsx";

export type Detail = Answer<"/v1/dead-letters/:id">;
export type ReplayPlan = Detail["replay"];

type Draft = ReturnType<typeof useDraft>;

/** The editable message of a dead letter. Each pause in typing repeats the dry run of the replay. */
export function useDraft(letter: Detail) {
  const original = JSON.stringify(letter.body, null, 2);
  const [edited, edit] = useState<string | undefined>();
  const text = edited ?? original;
  const isChanged = text !== original;
  const body = isChanged ? writtenJson(text) : undefined;
  const mistake = body?.wrong && (mistakeIn(text) ?? body.wrong);
  const { plan: current, last } = usePlan(() => planOf(letter.id, body), text, isChanged && !mistake);
  const plan: Result<ReplayPlan> = isChanged && last ? last : { ok: true, data: letter.replay };
  // True if the plan belongs to an earlier text.
  const isBehind = isChanged && current === undefined;
  const canBeSent = !mistake && !isBehind && plan.ok && plan.data.outcome !== "refused" && plan.data.outcome !== "settled";
  return { text, edit, reset: () => edit(undefined), isChanged, mistake, body, plan, isBehind, canBeSent };
}

function planOf(id: string, body: Written | undefined): Promise<Result<ReplayPlan>> {
  const asked = { reason: "Would it pass now?", dry_run: true, ...(body !== undefined && { body }) };
  return post("/v1/dead-letters/:id/replay", { param: { id }, body: asked }) as Promise<Result<ReplayPlan>>;
}

/** The range of the text to which an issue's path refers: the range of the last name in the path that the text contains. */
function placeOf(text: string, path: string): readonly [from: number, to: number] {
  let found: readonly [number, number] = [0, 0];
  for (const name of path.split(/[.[\]]+/)) {
    const quoted = JSON.stringify(name === "payload" ? "payload_inline" : name);
    const at = text.indexOf(`${quoted}:`, found[1]);
    if (at >= 0) found = [at, at + quoted.length];
  }
  return found;
}

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
        <Check draft={draft} show={isOpen ? show : undefined} />
        {letter.state === "open" && (
          <div aria-busy={draft.isBehind}>
            <h2>Preview: replay {draft.isChanged ? "as edited" : "unchanged"}</h2>
            {draft.plan.ok ? <PlanOfReplay plan={draft.plan.data} came={letter.replay} /> : <ProblemNote problem={draft.plan.problem} />}
          </div>
        )}
      </section>
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
        onKeyDown={(event) => (event.key === "Escape" ? event.currentTarget.blur() : onConfirm(send)(event))}
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

function Check({ draft: { mistake, plan, isBehind }, show }: { draft: Draft; show: ((path: string) => void) | undefined }) {
  const refused = !mistake && plan.ok ? plan.data.refused : null;
  return (
    <div class="letters-issues" aria-live="polite" aria-busy={isBehind}>
      {mistake && (
        <p class="problem">
          <strong>Not valid JSON.</strong> {mistake}
        </p>
      )}
      {refused && (
        <div class="problem">
          <p>
            <strong>{refused.title}.</strong> <bdi>{refused.detail}</bdi>
          </p>
          <Issues of={refused.issues ?? []} show={show} />
          <p class="quiet">
            <Code code={refused.code} />
          </p>
        </div>
      )}
      {!mistake && plan.ok && !refused && plan.data.outcome !== "settled" && (
        <p class="letters-good">The message is valid by the deployed schema.</p>
      )}
      {isBehind && !mistake && <p class="quiet">Checking …</p>}
    </div>
  );
}

export function PlanOfReplay({ plan: { outcome, why, queue, identity, instance }, came }: { plan: ReplayPlan; came: ReplayPlan }) {
  const isOtherWork = identity !== null && came.identity !== null && identity.fingerprint !== came.identity.fingerprint;
  return (
    <>
      <p>
        <Status word={outcome} /> <bdi>{why}</bdi>
      </p>
      <Pairs
        of={{
          Key: identity && (
            <>
              <bdi>{identity.idempotency_key}</bdi>{" "}
              {instance ? (
                <Link to={hrefOf("instances", instance.id)}>its instance is {instance.status.replaceAll("_", " ")}</Link>
              ) : (
                <Quiet of="no instance has it" />
              )}
            </>
          ),
          Subject: identity && <bdi>{identity.subject}</bdi>,
          Type: identity && [<Text key="type" of={identity.message_type} after=" of " />, <Text key="of" of={identity.tenant_id} />],
          Payload: identity && [<Id key="id" id={identity.fingerprint} />, <Quiet key="is" of={isOtherWork ? " changed" : " unchanged"} />],
          To: queue && `the queue ${queue}`,
        }}
      />
      {!identity && <p class="quiet">The message has no readable key.</p>}
    </>
  );
}
