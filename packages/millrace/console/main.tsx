import { render } from "preact";
import "./hand.css";
import { useCell } from "./data/cell.ts";
import { followLive } from "./data/live.ts";
import { begin, session } from "./data/session.ts";
import { Shell } from "./frame/shell.tsx";
import { SignIn } from "./frame/sign-in.tsx";

function Console() {
  const state = useCell(session, (one) => one.state);
  if (state === "asking") return null;
  return state === "out" ? <SignIn /> : <Shell />;
}

const at = document.getElementById("console");
if (at) {
  followLive();
  void begin();
  // If the user opens a sign-in link in this page, only the URL's fragment changes, so that the page does not reload.
  addEventListener("hashchange", () => location.hash.startsWith("#code=") && void begin());
  render(<Console />, at);
}
