-- Decides the requests that are left, and returns the reply.

-- The states of the keys from `first` to `last`.
local function look(first, last)
  local values = call('MGET', unpack(KEYS, first, last))
  for i = 1, #values do found[first + i - 1] = values[i] end
end

-- Neighbouring keys are read together.
local first
for i = 1, leaving, 2 do
  first = first or left[i]
  if left[i + 2] ~= left[i] + 1 then
    look(first, left[i])
    first = nil
  end
end
for i = 1, leaving, 2 do settle_alone(left[i], left[i + 1]) end

if requests then
  look(count + 1, #KEYS)
  settle_connected(count)
end

found[#KEYS + 1] = now
for i = 1, #told do found[#KEYS + 1 + i] = told[i] end
found[#KEYS + #told + 2] = mark
return found
