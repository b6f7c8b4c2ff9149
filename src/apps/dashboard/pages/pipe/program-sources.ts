/** The programs of examples/send-one, which the snippets show. Loaded when one of them is opened. */
import go from '../../../../../examples/send-one/send.go?raw'
import mjs from '../../../../../examples/send-one/send.mjs?raw'
import php from '../../../../../examples/send-one/send.php?raw'
import py from '../../../../../examples/send-one/send.py?raw'
import type { Program } from '../../../client/program-snippets.ts'

export const programSources: Readonly<Record<Program, string>> = { mjs, py, go, php }
