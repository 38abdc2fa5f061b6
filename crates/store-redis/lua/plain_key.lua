-- Keys that another limiter also writes. Redis's clock determines the window, so their names are made
-- here. No key is ever left without a time to live.
--
-- ARGV[1] is packed: what to do, how long a key outlives its use, a text that is unique to this call,
-- and the charges.
local packed = cmsgpack.unpack(ARGV[1])
local verb, buffer, nonce = packed[1], packed[2], packed[3]

-- Whether a value was found that is not a count.
local damaged = false

-- A whole number in decimal, however large.
local function decimal(number)
  return string.format('%.0f', number)
end

-- The key of a window: its start in the template's unit, or its index if the unit is the window.
local function name_of(it, index)
  return it.head .. decimal(index * it.window / it.unit) .. it.tail
end

-- Lets a key live for as long as it matters. A longer time to live is kept, since another limiter set
-- it; a key without any is a mistake.
local function outlive(key, micros)
  if call('PTTL', key) < ceil(micros / 1000) then
    call('PEXPIRE', key, ceil((micros + buffer) / 1000))
  end
end
