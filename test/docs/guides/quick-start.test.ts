/** The quick start of the README. */
import { walk } from '../../support/guide-walker.ts'

await walk('../README')
