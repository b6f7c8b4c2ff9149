/** So many tasks at once; the others wait: first come, first served. */
import { DeliveryError } from '../destinations/driver.ts'

export class Places {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(atOnce: number) {
    this.#free = atOnce
  }

  async run<T>(signal: AbortSignal, task: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    else await this.#wait(signal)
    try {
      return await task()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else next()
    }
  }

  #wait(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const enter = () => {
        signal.removeEventListener('abort', leave)
        resolve()
      }
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(enter), 1)
        reject(new DeliveryError('transient', 'aborted', 'It was ended before its turn came.'))
      }
      if (signal.aborted) reject(new DeliveryError('transient', 'aborted', 'It was ended before it began.'))
      else {
        this.#waiting.push(enter)
        signal.addEventListener('abort', leave, { once: true })
      }
    })
  }
}
