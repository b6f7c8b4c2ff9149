/** The guide to schemas of records. */
import { walk } from '../../support/guide-walker.ts'

await walk('schemas')
