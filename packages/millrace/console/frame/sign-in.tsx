import { useEffect, useRef, useState } from "preact/hooks";
import { useCell } from "../data/cell.ts";
import { look, session, signOut, tryAgain } from "../data/session.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Button, ProblemNote } from "../parts/page.tsx";

function TokenForm() {
  const field = useRef<HTMLInputElement>(null);
  // In a dialog the browser would focus the button.
  useEffect(() => field.current?.focus(), []);
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
      {why?.retryable && <Button press={tryAgain}>Try again</Button>}
      <label>
        Your token
        <input ref={field} type="password" autocomplete="off" placeholder="mr_…" required />
      </label>
      <button class="main" type="submit" disabled={isAsking}>
        Sign in
      </button>
      <p class="quiet">
        The token needs the scope <code>read</code>. This tab keeps it until you sign out or close the tab. You can also sign in with a link
        that is valid once: ask the operator of this engine. If <code>npx millrace dev</code> runs the engine on your machine, make a link
        in the same folder:
      </p>
      <pre>npx millrace token link</pre>
      <p class="quiet">
        In the folder of a Worker that <code>npx wrangler dev</code> runs, make a token to paste here:
      </p>
      <pre>npx millrace token --persist-to .wrangler/state --tenant acme --actor ada</pre>
    </form>
  );
}

export function SignIn() {
  return (
    <main class="sign-in">
      <h1>Millrace</h1>
      <TokenForm />
    </main>
  );
}

export function SignInAgain() {
  return (
    <Dialog title="Sign in again">
      <p>The page keeps your place and your open dialogs. The data is not updated until you sign in.</p>
      <TokenForm />
      <p>
        <Button press={signOut}>Sign out and discard open dialogs</Button>
      </p>
    </Dialog>
  );
}
