/** The same for a script tag: a global. */
import { pipectl } from './pipectl.ts'

Object.assign(window, { pipectl })
