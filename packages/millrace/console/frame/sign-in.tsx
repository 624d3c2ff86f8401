import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { useCell } from "../data/cell.ts";
import { look, session, signOut, tryAgain } from "../data/session.ts";
import { Dialog } from "../parts/dialog.tsx";
import { ProblemNote } from "../parts/problem.tsx";

/** Asks for a token. It goes into the page's memory, and out of the field. */
function TokenForm({ field }: { field: RefObject<HTMLInputElement> }) {
  const [isAsking, setAsking] = useState(false);
  const { why } = useCell(session);
  const submit = async (event: Event) => {
    event.preventDefault();
    const token = field.current?.value.trim() ?? "";
    if (!token || isAsking) return;
    setAsking(true);
    await look(token);
    setAsking(false);
    if (field.current) field.current.value = "";
  };
  return (
    <form class="token" onSubmit={submit}>
      {why && <ProblemNote problem={why} />}
      {why?.retryable && (
        <button type="button" onClick={tryAgain}>
          Try again
        </button>
      )}
      <label>
        Your token
        <input ref={field} type="password" autocomplete="off" placeholder="mr_…" required />
      </label>
      <button class="main" type="submit" disabled={isAsking}>
        Sign in
      </button>
      <p class="quiet">
        It needs the scope <code>read</code>, stays in this page's memory and is gone with it. Or open a link, which signs you in once: ask
        whoever runs this engine for one. Where <code>npm start</code> runs it on your own machine, the same folder makes one:
      </p>
      <pre>npm run token -- link</pre>
      <p class="quiet">In the folder of a Worker of your own, with Millrace beside it, this makes a token to paste here:</p>
      <pre>npm --prefix ../millrace run -s token -- --config "$PWD/wrangler.jsonc" --tenant acme --actor ada</pre>
    </form>
  );
}

/** A field that has the focus as soon as it is shown, also in a dialog, which would give it to its button. */
function useFocused(): RefObject<HTMLInputElement> {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  return field;
}

/** Shown to whoever is not signed in. */
export function SignIn() {
  const field = useFocused();
  return (
    <main class="sign-in">
      <h1>Millrace</h1>
      <TokenForm field={field} />
    </main>
  );
}

/** Shown over an open page whose token does not work any more: what is behind it stays as it was. */
export function SignInAgain() {
  const field = useFocused();
  return (
    <Dialog title="Sign in again">
      <p>Your place is kept, and what you had begun. What you see is as old as it says.</p>
      <TokenForm field={field} />
      <p>
        <button type="button" onClick={signOut}>
          Sign out, and forget what was begun
        </button>
      </p>
    </Dialog>
  );
}
