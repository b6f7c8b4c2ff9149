/** So many threads at a time: the rest waits in line, and an attempt that ends while it waits leaves it. */

import { DeliveryError } from '../destinations/driver.ts'
import { AtMost } from '../platform/at-most.ts'

export class Places {
  readonly #atMost: AtMost

  constructor(atOnce: number) {
    this.#atMost = new AtMost(atOnce)
  }

  /** Rejects with a DeliveryError (`aborted`) when the signal is aborted before its turn has come. */
  async run<T>(signal: AbortSignal, task: () => Promise<T>): Promise<T> {
    let hasBegun = false
    const begun = () => {
      hasBegun = true
      return task()
    }
    try {
      return await this.#atMost.run(begun, signal)
    } catch (error) {
      if (hasBegun) throw error
      throw new DeliveryError('transient', 'aborted', 'It was ended before its turn came.', { cause: error })
    }
  }
}
