/**
 * Rewrites the metadata file, so that nothing of deleted rows is left in free pages, in free space of pages or in the WAL.
 * Readers continue meanwhile. Writers wait: for a second or so per 200 MB.
 */
import { statSync } from 'node:fs'
import { resourceLimits } from '../../contract/resource-limits.ts'
import { messageOf } from '../../platform/error-code.ts'
import { bytes } from '../../platform/quantities.ts'
import { Thread, threadEntry } from '../../platform/threads.ts'
import type { RewriteCalls } from './rewrite-thread.ts'

/** Returns why the file still has old content; null: it has none. Never rejects. */
export async function rewriteFile(file: string): Promise<string | null> {
  const { size } = statSync(file)
  if (size > resourceLimits.privacyVacuumBytes)
    return `The file has ${bytes(size)}, too much to rewrite it while the daemon runs.`
  const thread = new Thread<RewriteCalls>({
    name: 'metadata-rewrite',
    entry: threadEntry(import.meta.url, './rewrite-thread'),
    data: file,
  })
  try {
    if (await thread.call('rewrite', [])) return null
    return 'A process that reads the file kept its old content, for example a backup.'
  } catch (error) {
    return `The file could not be rewritten: ${messageOf(error)}`
  } finally {
    await thread.terminate('done')
  }
}
