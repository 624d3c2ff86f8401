import { Component, type ComponentChildren } from "preact";
import { Link, type Place } from "./router.tsx";

interface Props {
  at: Place;
  children: ComponentChildren;
}

interface Failed {
  error?: unknown;
  at?: Place | undefined;
}

export class Boundary extends Component<Props, Failed> {
  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ error, at: this.props.at });
  }

  override render() {
    const { error, at } = this.state;
    if (at !== this.props.at) return this.props.children;
    return (
      <>
        <h1>This screen cannot be shown</h1>
        <div class="problem" role="alert">
          <p>
            <strong>The data has an unexpected form.</strong> Nothing was changed. Text that you typed here is lost. The other screens work.
          </p>
          <p>
            If this happens again, reload the page: the engine may be newer than the page. <bdi>{String(error)}</bdi>
          </p>
        </div>
        <p class="acts">
          <button type="button" class="main" onClick={() => this.setState({ at: undefined })}>
            Try again
          </button>
          <Link to="/console">To Now</Link>
        </p>
      </>
    );
  }
}
