/** The start of a buffer after its process was killed, with a fault at any step: the next one continues, and nothing acknowledged is lost. */
import { testSteps } from '../step-tests.ts'

testSteps('start after kill')
