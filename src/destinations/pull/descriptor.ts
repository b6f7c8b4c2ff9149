/** Pull destinations: consumers fetch the messages, so there is nothing to dial. */
import type { DestinationDescriptor, DestinationSpec, DriverModule, PullSpec } from '../driver.ts'

/** The lane serves messages itself and never uses a driver. */
const driver: DriverModule<PullSpec> = {
  open() {
    throw new Error('a pull lane delivers nothing by itself')
  },
  async check() {
    return [
      { name: 'pull', ok: true, message: 'Consumers fetch the messages: there is nothing to connect to.' },
    ]
  },
}

export const pull: DestinationDescriptor<PullSpec> = {
  type: 'destination_pull',
  rules: () => [],
  targets: () => [],
  attemptLimitMs: () => 0,
  requestsPerBatch: () => 1,
  isTransactional: false,
  isExactlyOnce: () => false,
  secrets: () => [],
  load: async () => driver,
}

export function isPullSpec<T extends DestinationSpec>(spec: T): spec is T & PullSpec {
  return spec.type === 'destination_pull'
}
