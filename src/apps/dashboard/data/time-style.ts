/** Whether times are shown as "2 minutes ago" or as a date. Stored in this browser. */
import { tick } from './clock.ts'

const key = 'pipectl-times'

export type TimeStyle = 'relative' | 'absolute'
export let timeStyle: TimeStyle = localStorage.getItem(key) === 'absolute' ? 'absolute' : 'relative'

/** Every time on the page follows with the next tick of the clock. */
export function setTimeStyle(next: TimeStyle): void {
  localStorage.setItem(key, next)
  timeStyle = next
  tick()
}
