/** The checks of a pull destination. Its lane serves messages itself and never uses a driver. */
import type { DriverModule, PullSpec } from '../driver.ts'

export const pull: DriverModule<PullSpec> = {
  open() {
    throw new Error('a pull lane delivers nothing by itself')
  },
  async check() {
    return [
      { name: 'pull', ok: true, message: 'Consumers fetch the messages: there is nothing to connect to.' },
    ]
  },
}
