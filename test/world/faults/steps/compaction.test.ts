/** A compaction whose disk fails, or that is killed, at any step: the next one continues, and nothing acknowledged is lost. */
import { testSteps } from '../step-tests.ts'

testSteps('compaction', { errors: ['EIO'] })
