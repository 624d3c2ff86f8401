import type { ComponentType } from "preact";

export interface Screen {
  name: string;
  /** The path of the screen after `/console/`; "" for the start page. */
  path: string;
  title: string;
  component: ComponentType<ScreenProps>;
  key?: string;
  isInNavigation?: boolean;
  /** True if an id follows in the path of the screen. */
  takesName?: boolean;
  /** The navigation entry that is marked for this screen; default: the screen's own. */
  under?: string;
}

export interface ScreenProps {
  /** The id in the path of the screen; "" without one. */
  param: string;
}
