/** A program for crash tests: copies a log in small batches. Arguments: the root of the source, the root of the copy. */
import { openLogRows } from '../../../src/log/segments/replicated-rows.ts'
import { copyRows, dirOf, openCopyAt } from './copied-log.ts'
import { KiB } from './open.ts'

const [from = '', to = ''] = process.argv.slice(2)
const rows = openLogRows(dirOf(from))
const copy = openCopyAt(to, rows)
copyRows(rows, copy, 24 * KiB)
copy.close()
