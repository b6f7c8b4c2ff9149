/** The thread that writes table files: `table-threads.ts` starts it and asks it to end. */
import { ThreadHost } from '../../platform/thread-calls.ts'
import { DeliveryError } from '../driver.ts'
import type { TableCalls, TableSource } from './table-calls.ts'
import { TableStore } from './table-store.ts'

const host = new ThreadHost<undefined, TableCalls, TableSource>({ errors: { DeliveryError } })
const store = new TableStore()

host.serve(
  {
    store: (id, target, request) =>
      store.store(target, request, {
        begin: (position) => host.call('begin', [id, position]),
        next: () => host.call('next', [id]),
        park: (rejected) => host.call('park', [id, rejected]),
        mayCommit: () => host.call('mayCommit', [id]),
      }),
    release: (key) => store.release(key),
  },
  { onClose: () => store.close() },
)
